"""Compare what git keeps of raw data with what the manifest says of that.

A clone tells by the manifest's word alone that a file was deleted from git: it has never seen it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from helpers.runtime.raw_data.check import Finding, State
from helpers.runtime.raw_data.tracked import in_index

if TYPE_CHECKING:
    from helpers.runtime.raw_data.area import Area
    from helpers.runtime.raw_data.manifest import Manifest

NOT_STAGED = "its line in the manifest is not staged: git add data/raw.manifest"


def judge_keeping(area: Area, manifest: Manifest, kept: set[str]) -> list[Finding]:
    """Return the files that are here and of which the manifest of a commit says otherwise than git would keep them.

    Args:
        area: The project's own raw data.
        manifest: As the commit would have it.
        kept: Files that git would have after it.
    """
    findings = []
    for path, entry in manifest.entries.items():
        if entry.in_git == (path in kept) or not (area.root / path).is_file():
            continue
        on_disk = area.manifest.entries.get(path)
        if on_disk is not None and on_disk.in_git != entry.in_git:
            detail = NOT_STAGED
        elif entry.in_git:
            detail = f"its line says that git keeps it: git add it, or let git ignore it and {_again(area, path)}"
        else:
            detail = f"git keeps it, and its line does not say so: {_again(area, path)}"
        state = State.DELETED if entry.in_git else State.UNDECLARED
        findings.append(Finding(path=path, state=state, detail=detail))
    return findings


def what_is_unsaid(area: Area) -> str:
    """Say which declared files git keeps without a word of it in the manifest: no clone would miss them."""
    if area.is_reference:
        return ""
    kept = in_index(area)
    paths = sorted(path for path, entry in area.manifest.entries.items() if path in kept and not entry.in_git)
    if not paths:
        return ""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"git keeps {area.shown(paths[0])}{more}, and the manifest does not say so: {_again(area, '')}"


def _again(area: Area, path: str) -> str:
    """Return the command that declares a file anew, or all of them (path ``""``), by what git keeps now."""
    manifest = area.file.relative_to(area.project).as_posix()
    return f"helpers data add {shlex.quote(area.shown(path))} && git add {manifest}"
