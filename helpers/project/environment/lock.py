"""Pin what is installed, and say where a lock and the list have come apart; no network, since pip has solved it."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import Distribution, distributions
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from helpers.project.environment.requirements import parse_requirement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.project.environment.requirements import Dependencies, Requirement

LOCK_FILE = "requirements.lock"
MADE = "# Made by `helpers env sync --lock`"

_INDEX = "--extra-index-url "


def lock_file(dependencies: Dependencies, installed: Iterable[Distribution] | None = None) -> str:
    """Return the versions that are installed now, of the list and of what it needs in turn.

    Args:
        dependencies: The project's.
        installed: The distributions to look among; unset, those of this interpreter.
    """
    found = _by_name(installed)
    by_name = {one.name: one for one in dependencies.requirements}
    lines = [
        f"{MADE}: what was installed, on",
        f"# Python {'.'.join(platform.python_version_tuple()[:2])} {sys.platform} {platform.machine()}",
        f"#   python3 -m pip install --requirement {LOCK_FILE}",
    ]
    if dependencies.index:
        lines.append(f"{_INDEX}{dependencies.index}")
    for name in sorted(_needed(dependencies.requirements, found)):
        requirement = by_name.get(name)
        version = found[name].version
        if not dependencies.index:  # the package index has no builds such as 2.13.0+cpu; 2.13.0 is met by any of them
            version = version.partition("+")[0]
        lines.append(requirement.text if requirement and requirement.url else f"{name}=={version}")
    return "\n".join(lines) + "\n"


def lock_problems(dependencies: Dependencies, text: str) -> list[str]:
    """Return where a lock is not as the list says, a line each; none where it is.

    A lock is of an earlier day: what it pins need not be what is installed.
    """
    lines = text.splitlines()
    pinned = _pinned(lines)
    problems = [
        f"{LOCK_FILE} {'pins ' + pinned[one.name].text + ', not' if one.name in pinned else 'does not pin'} {one.text}"
        for one in dependencies.requirements
        if not (_is_met(one, pinned[one.name]) if one.name in pinned else one.marker is not None)
    ]
    index = next((line.removeprefix(_INDEX) for line in lines if line.startswith(_INDEX)), "")
    if index != dependencies.index:
        theirs, ours = (one or "the package index alone" for one in (index, dependencies.index))
        problems.append(f"{LOCK_FILE} is for {theirs}, not for {ours}")
    return problems


def _pinned(lines: Iterable[str]) -> dict[str, Requirement]:
    said = (line for line in lines if line.strip() and not line.startswith(("#", "-")))
    return {one.name: one for one in (parse_requirement(line, LOCK_FILE) for line in said)}


def _is_met(requirement: Requirement, pinned: Requirement) -> bool:
    """Say whether a pin is within the bounds."""
    if requirement.url or pinned.url:
        return requirement.url == pinned.url
    return all(requirement.versions.contains(pin.version, prereleases=True) for pin in pinned.versions)


def missing(dependencies: Dependencies, installed: Iterable[Distribution] | None = None) -> list[str]:
    """Return the names of the list that have to be installed on this machine and are not."""
    found = _by_name(installed)
    return [one.name for one in dependencies.requirements if one.name not in found and _counts(one)]


def _by_name(installed: Iterable[Distribution] | None) -> dict[str, Distribution]:
    return {canonicalize_name(one.name): one for one in (distributions() if installed is None else installed)}


def _needed(requirements: Iterable[Requirement], found: dict[str, Distribution]) -> set[str]:
    """Return what these need in turn, their extras included, as far as it is installed."""
    needed: set[str] = set()
    done: set[tuple[str, str]] = set()
    waiting = [(one.name, extra) for one in requirements if _counts(one) for extra in ("", *one.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done or name not in found:
            continue
        done.add((name, extra))
        needed.add(name)
        its = (parse_requirement(text, name) for text in found[name].requires or [])
        waiting += [(one.name, its_extra) for one in its if _counts(one, extra) for its_extra in ("", *one.extras)]
    return needed


def _counts(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
