"""Read and write ``.template.json``: which template a project came from, with which answers and files.

The keys of cruft's ``.cruft.json`` mean here what they mean there, so a copy of one serves as the other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STAMP = ".template.json"
CRUFT = ".cruft.json"


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a project knows of its template.

    Args:
        template: Folder or URL of the template's repository.
        commit: Of the template; None where the bake was made from changed files.
        version: Release of the template.
        answers: What was asked, with the answers.
        files: sha256 of each file that is the template's alone, as the template made it.
        shared: The same of files in which the template and the user write, such as ``pyproject.toml``.
        overlay: Where a lab's own files came from: ``source`` and ``commit``.
        left: Files that ``adopt`` found in the project and left to it; None where nothing was adopted.
    """

    template: str
    commit: str | None
    version: str | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    overlay: Mapping[str, str | None] | None = None
    left: tuple[str, ...] | None = None

    @property
    def hashes(self) -> dict[str, str]:
        """The sha256 of each file that an update looks at."""
        return {**self.files, **self.shared}

    @property
    def name(self) -> str:
        """Version and commit, for people."""
        commit = self.commit[:8] if self.commit else "trial"
        return f"{self.version} ({commit})" if self.version else commit


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How a project differs from what its template made.

    Args:
        changed: Files of the template that were changed.
        deleted: Files of the template, or shared ones, that are gone.
        shared: Shared files that were changed, as they are meant to be.
    """

    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    shared: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.deleted)


def read_stamp(project: Path) -> Stamp:
    """Return the stamp of a project; of one that cruft made from an older template, what cruft knows.

    Raises:
        InvalidRequest: If there is none, or it cannot be read.
    """
    for name in (STAMP, CRUFT):
        file = project / name
        if file.exists():
            return _parse(file)
    raise InvalidRequest(
        f"{project} has no {STAMP}: no template has left its stamp here.",
        hint="helpers template adopt brings a project that exists to the template's standard",
    )


def _parse(file: Path) -> Stamp:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        known: dict[str, Any] = {name: record.get(name) for name in ("version", "overlay")}
        answers = record["context"]["cookiecutter"]
        return Stamp(
            template=record["template"],
            commit=record["commit"],
            answers={name: answer for name, answer in answers.items() if not name.startswith("_")},
            files=record.get("files", {}),
            shared=record.get("shared", {}),
            left=tuple(record["left"]) if "left" in record else None,
            **known,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(
            f"{file} cannot be read as a stamp ({type(error).__name__}: {error}).",
            hint=f"git checkout -- {file.name} brings the committed one back",
        ) from error


def write_stamp(project: Path, stamp: Stamp) -> None:
    """Write the stamp; tell a ``.cruft.json`` beside it which commit the project is at now."""
    record: dict[str, Any] = {
        "template": stamp.template,
        "commit": stamp.commit,
        "checkout": None,
        "directory": None,
        "version": stamp.version,
        "context": {"cookiecutter": dict(stamp.answers)},
        "overlay": stamp.overlay,
        "files": dict(stamp.files),
        "shared": dict(stamp.shared),
    }
    if stamp.left is not None:
        record["left"] = list(stamp.left)
    _write(project / STAMP, record)
    cruft = project / CRUFT
    if cruft.exists():
        known = json.loads(cruft.read_text(encoding="utf-8"))
        if known.get("commit") != stamp.commit:
            _write(cruft, {**known, "commit": stamp.commit})


def _write(file: Path, record: Mapping[str, Any]) -> None:
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def drift_of(project: Path, stamp: Stamp) -> Drift:
    """Compare the files of the stamp with those of the project; needs no template and no network."""
    now = {name: _hash(project / name) for name in stamp.hashes}
    return Drift(
        changed=tuple(name for name, made in stamp.files.items() if now[name] not in {None, made}),
        deleted=tuple(name for name, found in now.items() if found is None),
        shared=tuple(name for name, made in stamp.shared.items() if now[name] not in {None, made}),
    )


def sha256(content: bytes) -> str:
    """Return the hash by which the stamp knows a file."""
    return hashlib.sha256(content).hexdigest()


def _hash(file: Path) -> str | None:
    return sha256(file.read_bytes()) if file.is_file() else None
