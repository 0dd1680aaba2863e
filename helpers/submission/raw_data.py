"""Note at submission what the job needs to check raw data when it starts; check it here, too, where that is cheap."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from helpers.config import storage_folder
from helpers.errors import InvalidRequest
from helpers.runtime.raw_data import OFF, REFUSE
from helpers.runtime.raw_data.area import RAW, Area, all_areas
from helpers.runtime.raw_data.check import check, line_of
from helpers.runtime.raw_data.manifest import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.config import Settings
    from helpers.runtime.raw_data.check import Report

_CHEAP_FILES = 2000  # looking at them takes some hundredths of a second
_CHEAP_BYTES = 64 * 2**20
_MOST_NAMED = 5


def note_raw_data(project: Path | None, settings: Settings) -> dict[str, Any]:
    """Return what a job's own check needs; empty where there is no raw data, or nobody wants it checked.

    What is wrong already is said on stderr.

    Args:
        project: The folder of the project that is worked in, if any.
        settings: Those that hold there.

    Raises:
        InvalidRequest: If a manifest cannot be read; and with ``raw_data = "refuse"``, if a file is not as declared.
    """
    mode = settings.get("raw_data")
    if project is None or mode == OFF or not any((project / "data").glob(f"*{SUFFIX}")):
        return {}
    areas, data = areas_of(project, settings)
    for area in areas:
        if mode == REFUSE or (not area.is_reference and len(area.manifest.entries) <= _CHEAP_FILES):
            _judge(check(area, read_at_most=_CHEAP_BYTES), refuse=mode == REFUSE)
    return {
        "project": str(project),
        "mode": mode,
        "data": None if data is None else str(data),
        "manifests": {area.name: area.manifest.digest for area in areas},
    }


def areas_of(project: Path, settings: Settings) -> tuple[list[Area], Path | None]:
    """Return a project's raw data, and the folder of data that its references may lie in.

    Raises:
        InvalidRequest: If a manifest cannot be read, or needs a setting that is not set.
    """
    has_references = any(file.stem != RAW for file in (project / "data").glob(f"*{SUFFIX}"))
    data = storage_folder("data", project, settings) if has_references else None
    return all_areas(project, data), data


def _judge(report: Report, *, refuse: bool) -> None:
    wrong = [line_of(report.area, finding) for finding in report.wrong]
    if not wrong:
        return
    more = f"; and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    words = f"Raw data is not as data/{report.area.name}.manifest says: {'; '.join(wrong[:_MOST_NAMED])}{more}"
    if refuse:
        raise InvalidRequest(f"{words}.", hint="helpers data status")
    print(f"helpers: {words} (helpers data status)", file=sys.stderr)
