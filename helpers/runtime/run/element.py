"""Give an element of an array its own run folder, when it starts: an array of thousands is queued in ten files.

::

    runs/<name>/<run id>/           the array: run.json, submission.sh, private/calls.pkl
        elements/<index>/           a run folder like any other
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from helpers.runtime.run.description import Description, read_description, write_description
from helpers.runtime.run.folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

ELEMENTS = "elements"


def element_folder(array: RunFolder, index: int) -> RunFolder:
    """Return the run folder of an element, whether it exists yet or not."""
    return RunFolder(array.path / ELEMENTS / str(index))


def array_of(run: RunFolder) -> RunFolder | None:
    """Return the array that a run is an element of; None for a run of its own."""
    if run.path.parent.name != ELEMENTS:
        return None
    array = RunFolder(run.path.parent.parent)
    return array if array.description.exists() else None


def describe_element(array: Description, index: int) -> Description:
    """Return what was submitted as this element."""
    return replace(
        array,
        run_id=f"{array.run_id}/{index}",
        arguments=array.elements[index],
        elements=[],
        element=index,
    )


def begin_element(run: RunFolder) -> Description:
    """Make the folder of an element that starts for the first time, and return its description."""
    array = array_of(run)
    if array is None:
        raise FileNotFoundError(f"{run.path} is no element of an array, and has no {run.description.name}.")
    description = describe_element(read_description(array), int(run.path.name))
    make_element(run, description)
    return description


def make_element(run: RunFolder, description: Description) -> None:
    """Make the folder of an element, unless it is there."""
    run.logs.mkdir(parents=True, exist_ok=True)
    run.private.mkdir(mode=0o700, exist_ok=True)
    if not run.description.exists():
        write_description(run, description)


def find_runs_folder(run: RunFolder) -> Path:
    """Return the folder of all runs that a run, or an element of an array, lies in."""
    outermost = array_of(run) or run
    return outermost.path.parent.parent


def script_of(run: RunFolder) -> Path:
    """Return the script of a run, which the elements of an array share."""
    return (array_of(run) or run).script
