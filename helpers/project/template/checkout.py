"""Fetch a template's repository once, and lay out any of its commits."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.template.repository import answer, git

if TYPE_CHECKING:
    from collections.abc import Iterator


class Checkouts:
    """Clones of templates in a temporary folder, each fetched once.

    Args:
        folder: The temporary folder; whoever made it removes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clones: dict[str, Path] = {}

    def commit(self, template: str, ref: str | None) -> str:
        """Return the commit that a branch, a tag or an abbreviated commit names; None: the newest of the template.

        Raises:
            InvalidRequest: If the template cannot be fetched, or has no such commit.
        """
        clone = self._clone(template)
        names = [f"origin/{ref}", ref] if ref else ["HEAD"]
        for name in names:
            if found := answer(clone, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"):
                return found
        raise InvalidRequest(
            f"The template {template} has no commit {ref}.", hint="--from and --to take a commit, a tag or a branch"
        )

    def at(self, template: str, commit: str) -> Path:
        """Return a folder with the template as it is at ``commit``."""
        clone = self._clone(template)
        folder = clone.with_name(f"{clone.name}-{commit}")
        if not folder.exists():
            git(clone, "worktree", "add", "--quiet", "--detach", str(folder), commit)
        return folder

    def _clone(self, template: str) -> Path:
        if template not in self._clones:
            clone = self.folder / f"template{len(self._clones)}"
            git(self.folder, "clone", "--quiet", "--no-checkout", template, str(clone), settings=self._settings())
            self._clones[template] = clone
        return self._clones[template]

    def _settings(self) -> Path:
        """Return the user's settings, with repositories of other owners allowed: a lab's template is one person's.

        A clone runs nothing of what is set there; git reads this from no option for the process that it starts there.
        """
        file = self.folder / "gitconfig"
        theirs = os.environ.get("GIT_CONFIG_GLOBAL")
        folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        own = [theirs] if theirs else [f"{folder}/git/config", "~/.gitconfig"]
        included = "".join(f"[include]\n\tpath = {json.dumps(path)}\n" for path in own)
        file.write_text(f"{included}[safe]\n\tdirectory = *\n", encoding="utf-8")
        return file


@contextlib.contextmanager
def checkouts() -> Iterator[Checkouts]:
    """Give room for clones, and remove them at the end."""
    with tempfile.TemporaryDirectory(prefix="helpers-template-") as folder:
        yield Checkouts(Path(folder).resolve())
