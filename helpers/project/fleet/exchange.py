"""Write reports for programs, and put those of several hosts together."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.project.fleet.report import ProjectReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_KINDS: dict[str, tuple[type, ...]] = {
    "changed": (list,), "deleted": (list,), "commit": (str, type(None)), "looked_at": (int, float),
}  # fmt: skip  # all others are texts
_REQUIRED = ("name", "host", "path")


def as_json(reports: Sequence[ProjectReport]) -> str:
    """Return reports for programs, and for ``merge_reports``."""
    return json.dumps([asdict(report) for report in reports], indent=1, ensure_ascii=False)


def merge_reports(files: Iterable[Path]) -> list[ProjectReport]:
    """Return the reports of several hosts, the newest of each project and host.

    Raises:
        InvalidRequest: If a file is no report.
    """
    newest: dict[tuple[str, str], ProjectReport] = {}
    for file in files:
        for report in _read(file):
            key = (report.host, report.path)
            if key not in newest or newest[key].looked_at <= report.looked_at:
                newest[key] = report
    return list(newest.values())


def _read(file: Path) -> list[ProjectReport]:
    try:
        return _reports(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidRequest(
            f"{file} is no report: {error}.", hint="helpers fleet PATH --json > report.json makes one"
        ) from error


def _reports(records: Any) -> list[ProjectReport]:
    if not isinstance(records, list):
        raise TypeError("it holds no list")
    return [_report(record) for record in records]


def _report(record: Any) -> ProjectReport:
    """Read one report; what a newer version of this library adds is passed over."""
    if not isinstance(record, dict) or not all(name in record for name in _REQUIRED):
        raise ValueError(f"a project has {', '.join(_REQUIRED)}; got {record!r}")
    known = {name: value for name, value in record.items() if name in ProjectReport.__dataclass_fields__}
    for name, value in known.items():
        if not isinstance(value, _KINDS.get(name, (str,))):
            raise TypeError(f"{name} cannot be {value!r}")
    lists = {name: tuple(map(str, value)) for name, value in known.items() if isinstance(value, list)}
    return ProjectReport(**{**known, **lists})
