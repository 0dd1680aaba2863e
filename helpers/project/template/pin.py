"""Move the requirement that names this library at the template's commit: it changes with every release of the template.

Lines of the user's beside it would be a conflict at each update, if it were merged as any other line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.runtime.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

_REQUIREMENT = re.compile(r"slurm-torch-helpers @ [^\"'\s;]+")
_NAMED_IN = ("pyproject.toml", "environment.yml", "requirements.lock")


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The library's requirement before an update and after it.

    Args:
        old: As the older template says it.
        new: As the newer says it; empty where it says none.
        commit: Of the older template: a requirement at this commit is the template's, wherever it was fetched from.
    """

    old: str
    new: str
    commit: str

    @classmethod
    def between(cls, old: Path, new: Path, commit: str) -> Pin:
        """Return the requirements of two renderings, of which the older is of ``commit``."""
        return cls(old=requirement_of(old), new=requirement_of(new), commit=commit)

    def moved(self, content: bytes) -> bytes:
        """Return a file's content with the newer requirement; one that somebody else has chosen stays."""
        if not self.new:
            return content
        text = content.decode("utf-8", errors="surrogateescape")
        return _REQUIREMENT.sub(self._newer, text).encode("utf-8", errors="surrogateescape")

    def _newer(self, found: re.Match[str]) -> str:
        is_templates = found[0] == self.old or found[0].endswith(f"@{self.commit}")
        return self.new if is_templates else found[0]

    def move_in(self, project: Path) -> list[str]:
        """Move it in the files of a project that name it; return those that changed."""
        changed = []
        for name in _NAMED_IN:
            file = project / name
            content = file.read_bytes() if file.is_file() else b""
            moved = self.moved(content)
            if moved != content:
                write_whole(file, moved, mode=file.stat().st_mode & 0o777)
                changed.append(name)
        return changed


def requirement_of(project: Path) -> str:
    """Return the requirement of this library in a project's ``pyproject.toml``; empty where there is none."""
    file = project / "pyproject.toml"
    found = _REQUIREMENT.search(file.read_text(encoding="utf-8")) if file.exists() else None
    return found[0] if found else ""
