"""Show how a project's files differ from those that its template made: line by line, which the stamp cannot."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.project.template.rendering import finish_rendering, require_cookiecutter, start_rendering
from helpers.project.template.stamp import drift_of, read_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.project.template.checkout import Checkouts


def diff_with_template(project: Path, room: Checkouts) -> str:
    """Return the unified diff from the template's files, at the stamp's commit, to the project's.

    Files that were changed or deleted count, those that both write in, and those that an adoption has left.

    Raises:
        InvalidRequest: If there is no stamp, it names no commit, or the template cannot be had or rendered.
    """
    require_cookiecutter()
    stamp = read_stamp(project)
    if stamp.commit is None:
        raise InvalidRequest(f"{project} was made from changed files, so its stamp names no commit of the template.")
    into = room.folder / "compared"
    checkout = room.at(stamp.template, room.commit(stamp.template, stamp.commit))
    render = finish_rendering(start_rendering(checkout, stamp.answers, into, source=stamp.template), into)
    drift = drift_of(project, stamp)
    paths = sorted({*drift.changed, *drift.deleted, *drift.shared, *(stamp.left or ())})
    return "".join(_diff(render, project, path) for path in paths)


def _diff(render: Path, project: Path, path: str) -> str:
    made, here = (_lines(folder / path) for folder in (render, project))
    lines = difflib.unified_diff(made, here, f"{path} of the template", f"{path} of this project", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
