"""Print all that is known of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from helpers.cli.elements import print_elements
from helpers.cli.table import moment, print_table, span
from helpers.cli.values import options_instead_of_keywords
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State
from helpers.submission.jobs.endings import exception_of

if TYPE_CHECKING:
    from helpers.cli.runs import RunView


def print_details(view: RunView) -> None:
    """Print what was submitted, how it stands, its attempts, and what to do where it failed."""
    described, run = view.description, RunFolder(view.folder)
    facts = {
        "job": f"{view.id or '–'} {described.name}",
        "state": f"{view.status.state}{f' ({view.why})' if view.why else ''}",
        "call": f"{described.function}(…)" if described.elements else described.call,
        "asked for": ", ".join(f"{name}={value}" for name, value in described.resources.items()),
        "cluster": described.cluster,
        "nodes": view.nodes,
        "submitted": moment(view.submitted),
        "time": span(view.seconds),
        "directory": described.directory,
        "folder": str(view.folder),
        "logs": str(run.logs),
        "checkpoints": str(run.checkpoints) if run.checkpoints.is_dir() else "",
    }
    width = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        if value:
            typer.echo(f"{name:<{width}}{value}")
    if described.elements:
        typer.echo()
        print_elements(run, described)
        return
    if attempts := _attempts(view):
        typer.echo()
        print_table(("attempt", "job", "began", "time", "from", "saved at step", "state", "nodes", "cause"), attempts)
    _print_cure(view, run)


def _attempts(view: RunView) -> list[tuple[str, ...]]:
    """Return one row for each attempt: where it began, and how it ended."""
    ends = {line["attempt"]: line for line in view.ledger if line["event"] == "end"}
    rows: list[tuple[str, ...]] = []
    for start in (line for line in view.ledger if line["event"] == "start"):
        end = ends.get(start["attempt"])
        is_newest = start["attempt"] == view.status.attempt
        state, cause = (end["state"], end["cause"]) if end else (str(view.status.state) if is_newest else "", "")
        if end is None and is_newest and view.status.ending is not None:
            cause = view.status.ending.cause
        detail = (end or {}).get("detail")
        rows.append(
            (
                str(start["attempt"]),
                start["job_id"],
                moment(start["time"]),
                span(end["time"] - start["time"] if end else _seconds_unsaid(view) if is_newest else None),
                start.get("checkpoint") or "",
                _step(end),
                state,
                start["nodes"],
                f"{cause}: {detail}" if detail else cause,
            )
        )
    return rows


def _seconds_unsaid(view: RunView) -> float | None:
    """Return how long the newest attempt took that Slurm ended, batch script and all."""
    return view.seconds if view.status.state.is_final else None


def _step(end: dict[str, Any] | None) -> str:
    step = None if end is None else end.get("step")
    return "" if step is None else str(step)


def _print_cure(view: RunView, run: RunFolder) -> None:
    """Say why it failed and what to do, without loading the job's own exception: that runs the job's code."""
    ending = view.status.ending
    if ending is None or not view.status.state.is_final or view.status.state is State.COMPLETED:
        return
    if ending.cause == "raised":
        typer.echo(f"\nerror: {ending.detail}\nhint: helpers logs {view.id or view.folder}")
        return
    error = exception_of(run, view.description, view.status)
    hint = options_instead_of_keywords(getattr(error, "hint", ""))
    typer.echo(f"\nerror: {getattr(error, 'message', error)}" + (f"\nhint: {hint}" if hint else ""))
