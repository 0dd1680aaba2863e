"""Check raw data when a job starts: what was found goes into its provenance, and what is wrong into its log.

The elements of an array share one check a minute: a thousand of them would each look at every file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.runtime.files import read_json, write_json
from helpers.runtime.raw_data.area import all_areas
from helpers.runtime.raw_data.check import State, check
from helpers.runtime.run.element import array_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.runtime.raw_data.check import Report
    from helpers.runtime.run.folder import RunFolder

_SHARED_S = 60
_MOST_NAMED = 20
_FEW = 3  # in a sentence
_SHARED_FILE = "raw-data.json"


def record_raw_data(run: RunFolder, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check the raw data of a run, say what is wrong on stderr, and return the record.

    Args:
        run: The run's files.
        asked: What the submission has noted: the project, the folder of data, the manifests as they were.

    Returns:
        ``state``, ``"ok"`` or ``"wrong"`` or why it cannot be told, and for each manifest its hash, the number of
        files in each state, and what is wrong; None where there is no raw data to check.
    """
    if not asked:
        return None
    array = array_of(run)
    shared = None if array is None else array.path / _SHARED_FILE
    record = _read_shared(shared)
    if record is None:
        record = _check_all(asked)
        if shared is not None:
            write_json(shared, record, durable=False)
    for line in _warnings(record):
        print(f"[helpers] {line}", file=sys.stderr)
    return record


def why_refused(record: Mapping[str, Any] | None) -> str:
    """Return why a run with this record must not go on, in a sentence; empty where nothing is wrong."""
    if record is None or record["state"] == "ok":
        return ""
    named = [line for area in record["manifests"].values() for line in area["wrong"]]
    more = f"; and {len(named) - _FEW} more" if len(named) > _FEW else ""
    return f"raw data is not as declared: {'; '.join(named[:_FEW]) or record['state']}{more}"


def _read_shared(file: Path | None) -> dict[str, Any] | None:
    record: dict[str, Any] | None = None if file is None else read_json(file)
    return record if record is not None and time.time() - record["time"] < _SHARED_S else None


def _check_all(asked: Mapping[str, Any]) -> dict[str, Any]:
    began = time.time()
    record: dict[str, Any] = {"state": "ok", "time": began, "manifests": {}}
    try:
        for area in all_areas(Path(asked["project"]), Path(asked["data"]) if asked["data"] else None):
            report = check(area)
            record["manifests"][area.name] = _as_record(report, asked["manifests"].get(area.name))
    except (InvalidRequest, OSError) as error:
        record["state"] = f"cannot be told: {getattr(error, 'message', error)}"
    if any(area["wrong"] for area in record["manifests"].values()) and record["state"] == "ok":
        record["state"] = "wrong"
    return record | {"seconds": round(time.time() - began, 3)}


def _as_record(report: Report, submitted: str | None) -> dict[str, Any]:
    area, wrong = report.area, report.wrong
    lines = [line for finding, line in zip(report.findings, report.lines(), strict=True) if finding.state.is_wrong]
    return {
        "sha256": area.manifest.digest,
        "root": str(area.root),
        "files": len(area.manifest.entries),
        "counts": {str(state): count for state, count in sorted(report.counts.items()) if count},
        "wrong": lines[:_MOST_NAMED],
        "wrong_in_all": len(wrong),
        "changed_since_submission": submitted is not None and submitted != area.manifest.digest,
    }


def _warnings(record: Mapping[str, Any]) -> list[str]:
    lines = []
    if record["state"] not in {"ok", "wrong"}:
        lines.append(f"RAW DATA: whether it is as declared {record['state']}")
    for name, area in record["manifests"].items():
        if area["changed_since_submission"]:
            lines.append(f"RAW DATA: data/{name}.manifest is another than when this was submitted")
        if area["wrong"]:
            lines += [f"RAW DATA IS NOT AS DECLARED in data/{name}.manifest:", *(f"  {line}" for line in area["wrong"])]
        if area["wrong_in_all"] > len(area["wrong"]):
            lines.append(f"  and {area['wrong_in_all'] - len(area['wrong'])} more: helpers data verify")
        if unverified := area["counts"].get(str(State.UNVERIFIED)):
            lines.append(f"raw data: {unverified} large files were never read here: helpers data verify")
    return lines
