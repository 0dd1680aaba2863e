"""Which files of a project are the template's and which the user's: the lists stand in ``cookiecutter.json``."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Ownership:
    """Patterns of paths, in which ``*`` stands for slashes, too; what none matches is the template's alone.

    Args:
        users: Made once, never touched by an update.
        shared: Both write in them; an update merges.
        any_project: Those of the template's that fit a project that was not made from it.
    """

    users: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    any_project: tuple[str, ...] = ()

    @classmethod
    def read(cls, template: Path) -> Ownership:
        """Return the lists of a checkout of a template; of one that is older than they are: nothing is the user's."""
        known = json.loads((template / "cookiecutter.json").read_text(encoding="utf-8"))
        users, shared, any_project = (
            tuple(known.get(name, ())) for name in ("_owned_by_user", "_shared", "_for_any_project")
        )
        return cls(users=users, shared=shared, any_project=any_project)

    def is_users(self, path: str) -> bool:
        """Say whether the file is the user's."""
        return _matches(path, self.users)

    def is_for_any_project(self, path: str) -> bool:
        """Say whether the file fits a project that was not made from the template."""
        return _matches(path, self.any_project)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
