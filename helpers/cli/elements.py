"""Show how the elements of an array stand, by what they have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from helpers.cli.table import coloured, print_table
from helpers.runtime.run.element import element_folder
from helpers.runtime.run.status import State, read_status
from helpers.submission.jobs.array_status import id_of, ids_of_elements, parts_of
from helpers.submission.jobs.sentences import in_brief

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder

_SHOWN = 20


def element_records(array: RunFolder, description: Description) -> list[dict[str, str]]:
    """Return for each element its id, arguments, state, and the cause where it failed."""
    ids = dict(enumerate(ids_of_elements(parts_of(array))))  # none where it was never queued
    records = []
    for number, arguments in enumerate(description.elements):
        status = read_status(element_folder(array, number))
        state = State.PENDING if status is None else status.state
        ending = status.ending if status is not None and state.is_unsuccessful else None
        cause = "" if ending is None else in_brief(ending)
        records.append(
            {"id": ids.get(number, ""), "arguments": ", ".join(arguments), "state": str(state), "cause": cause}
        )
    return records


def failed_among(records: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the numbers of the elements that have ended without success."""
    unended = {str(state) for state in State if not state.is_final}
    return [n for n, record in enumerate(records) if record["state"] not in {*unended, State.COMPLETED}]


def print_elements(array: RunFolder, description: Description) -> None:
    """Print a row for each element; where they are too many, of those first that failed."""
    records = element_records(array, description)
    failed, order = failed_among(records), list(range(len(records)))
    if len(order) > _SHOWN:
        order = sorted(list(dict.fromkeys([*failed, *order]))[:_SHOWN])
    rows = [
        (record["id"] or "–", record["arguments"], coloured(record["state"]), record["cause"].partition("\n")[0])
        for record in map(records.__getitem__, order)
    ]
    print_table(("job", "arguments", "state", "cause"), rows)
    if len(records) > len(rows):
        unseen = len(set(failed) - set(order))
        typer.echo(f"… and {len(records) - len(rows)} more{f', {unseen} of them failed' if unseen else ''}")
    if failed:
        typer.echo(f"hint: {hint_for_elements(array, records)}")


def hint_for_elements(array: RunFolder, records: Sequence[Mapping[str, str]]) -> str:
    """Return where to read on about an array, and how to run again what failed of it, with its own ids."""
    failed = failed_among(records)
    if not failed:
        return f"helpers logs {records[0]['id']}"
    return f"helpers logs {records[failed[0]]['id']}; what failed, once more: helpers rerun {id_of(array)} --failed"
