"""Say in a few words how a project's raw data stands; no file of it is read for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.runtime.raw_data.area import all_areas
from helpers.runtime.raw_data.check import State, check
from helpers.runtime.raw_data.manifest import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path


def raw_data_state(project: Path) -> str:
    """Return ``ok``, ``no manifest``, or how many files are not as declared: ``2 changed, 1 undeclared``.

    Sizes and times are compared; of a file that was never read here, as in a fresh clone, only its size can be.
    """
    if not any((project / "data").glob(f"*{SUFFIX}")):
        return "no manifest"
    reports = [check(area, read_at_most=0) for area in all_areas(project, None)]
    told = [state for state in State if state is not State.OK]
    counts = {state: sum(report.counts.get(state, 0) for report in reports) for state in told}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "ok"
