"""Describe an environment as its files show it: who installed what, and when. No package manager is asked."""

from __future__ import annotations

import json
import os
import re
import site
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHEN = re.compile(r"^==> (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) <==$", re.MULTILINE)
_DIST_INFO = re.compile(r"(?:^|/)([^/]+?)-[^/-]+\.dist-info/")


@dataclass(frozen=True, kw_only=True)
class Place:
    """One environment, and what surrounds it.

    Args:
        prefix: Its folder (``sys.prefix``).
        packages: Where its packages are (``site-packages``).
        executable: The interpreter that runs.
        variables: The process's variables.
        home: The user's home.
        user_packages: The packages in the home folder that this Python imports; None where it does not.
        path: The module search path.
    """

    prefix: Path
    packages: Path
    executable: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    home: Path = field(default_factory=Path.home)
    user_packages: Path | None = None
    path: tuple[str, ...] = ()

    @classmethod
    def here(cls) -> Place:
        """Return the environment of this process."""
        user = Path(site.getusersitepackages()) if site.ENABLE_USER_SITE else None
        return cls(
            prefix=Path(sys.prefix),
            packages=Path(sysconfig.get_path("purelib")),
            executable=Path(sys.executable),
            variables=dict(os.environ),
            user_packages=user if user is not None and user.is_dir() else None,
            path=tuple(sys.path),
        )

    @classmethod
    def at(cls, prefix: Path) -> Place:
        """Return an environment that this process is not in: what is installed there, without surroundings.

        Raises:
            InvalidRequest: If there is none.
        """
        found = sorted(prefix.glob("lib/python3*/site-packages"))
        if not found:
            raise InvalidRequest(
                f"{prefix} is no environment: it has no lib/python3*/site-packages.", hint="helpers env check"
            )
        return cls(prefix=prefix, packages=found[-1], executable=prefix / "bin" / "python")

    @property
    def is_conda(self) -> bool:
        """Whether conda made it."""
        return (self.prefix / "conda-meta").is_dir()

    @cached_property
    def by_conda(self) -> dict[str, str]:
        """What conda has installed: its own name for each Python distribution, by the distribution's."""
        found: dict[str, str] = {}
        for file in sorted((self.prefix / "conda-meta").glob("*.json")):
            try:
                record = json.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            names = {match[1] for path in record.get("files", []) if (match := _DIST_INFO.search(path))}
            found.update(
                {canonicalize_name(name): record.get("name", file.stem) for name in names or {record.get("name", "")}}
            )
        return found

    @cached_property
    def by_pip(self) -> dict[str, float]:
        """When pip has installed each of its distributions, in seconds since the epoch."""
        return installed_by_pip(self.packages)

    @cached_property
    def conda_times(self) -> list[float]:
        """When conda has changed the environment, in order, by its own history."""
        try:
            text = (self.prefix / "conda-meta" / "history").read_text(encoding="utf-8")
        except OSError:
            return []
        return sorted(time.mktime(time.strptime(when, "%Y-%m-%d %H:%M:%S")) for when in _WHEN.findall(text))


def installed_by_pip(packages: Path) -> dict[str, float]:
    """Return the distributions in a folder whose ``INSTALLER`` is not conda, each with the time of that file."""
    found: dict[str, float] = {}
    for file in sorted(packages.glob("*.dist-info/INSTALLER")):
        if file.read_text(encoding="utf-8", errors="replace").strip() != "conda":
            found[canonicalize_name(file.parent.name.removesuffix(".dist-info").rpartition("-")[0])] = (
                file.stat().st_mtime
            )
    return found
