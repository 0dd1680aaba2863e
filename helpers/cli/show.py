"""``helpers show``: everything that is known of one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.cli.runs import RunView

_LOG_LINES = 20

HELP = """Show everything that is known of one job: call, resources, attempts, cause and cure, code, the end of its log.

With --script: its batch script, and nothing else.
"""


def show(
    *,
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The scheduler's id, or a run folder.", autocompletion=complete_job)
    ],
    lines: Annotated[int, typer.Option(min=0, metavar="N", help="Lines of each log's end.")] = _LOG_LINES,
    script: Annotated[bool, typer.Option("--script", help="The batch script alone.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object, for programs; times in seconds since the epoch.")
    ] = False,
) -> None:
    """Show one job; see HELP."""
    from helpers.cli.report import exit_code_of, note, show_error
    from helpers.cli.runs import look_at, read_runs
    from helpers.errors import ClusterUnreachable, InvalidRequest
    from helpers.runtime.run.element import script_of
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.attach import find_folder

    if script and as_json:
        raise InvalidRequest(
            "--script is the batch script as it stands, not JSON.", hint=f"helpers show {job} --script"
        )
    folder = find_folder(job)
    if script:
        typer.echo(script_of(RunFolder(folder)).read_text(encoding="utf-8"), nl=False)
        return
    silent: ClusterUnreachable | None = None
    try:
        views = look_at([folder])
    except ClusterUnreachable as error:  # what the folder says is worth showing
        silent, views = error, read_runs([folder])
    for view in views:
        _show_view(view, lines=lines, as_json=as_json)
    if silent is not None:
        show_error(silent)
        note("shown is what the run folder says")
        raise typer.Exit(exit_code_of(silent))


def _show_view(view: RunView, *, lines: int, as_json: bool) -> None:
    if as_json:
        print_json(whole_record(view))
        return
    from helpers.cli.details import print_details

    print_details(view)
    _print_usage(view)
    _print_provenance(view)
    _print_logs(view, lines)


def whole_record(view: RunView) -> dict[str, Any]:
    """Return all facts for programs: those of the table, what was submitted, the attempts, provenance and usage."""
    from dataclasses import asdict

    from helpers.cli.elements import element_records
    from helpers.runtime.files import read_json
    from helpers.runtime.run.folder import RunFolder

    ending = asdict(view.status.ending) if view.status.ending else None
    return view.as_record() | {
        "ending": ending,
        "submission": asdict(view.description),
        "ledger": list(view.ledger),
        "provenance": read_json(RunFolder(view.folder).provenance),
        "usage": read_json(RunFolder(view.folder).usage),
        "elements": element_records(RunFolder(view.folder), view.description),
    }


def _print_usage(view: RunView) -> None:
    """Print what the newest attempt that has ended had and used, and what to ask for next time."""
    from helpers.runtime.files import read_json
    from helpers.runtime.run.folder import RunFolder

    lines = (read_json(RunFolder(view.folder).usage) or {}).get("lines", [])
    if lines:
        typer.echo("\n" + "\n".join(lines))


def _print_provenance(view: RunView) -> None:
    """Print what the newest attempt ran with; the lists (packages) stay in the file."""
    from helpers.runtime.files import read_json
    from helpers.runtime.run.folder import RunFolder

    run = RunFolder(view.folder)
    record = {name: value for name, value in _flat(read_json(run.provenance) or {}) if value not in (None, "", [], {})}
    if not record:
        return
    typer.echo(f"\nran with (the whole: {run.provenance})")
    width = max(len(name) for name in record) + 2
    for name, value in record.items():
        typer.echo(f"  {name:<{width}}{value}")


_LONGEST = 12  # entries of a table that is printed


def _flat(record: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in record.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.") if len(value) <= _LONGEST else []
        elif not isinstance(value, list):
            rows.append((f"{prefix}{name}", value))
        elif len(value) <= _LONGEST:
            rows.append((f"{prefix}{name}", ", ".join(map(str, value))))
    return rows


def _print_logs(view: RunView, lines: int) -> None:
    """Print the end of what rank 0, or the rank that failed first, and the batch script have printed."""
    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.jobs.endings import tail

    run, ending = RunFolder(view.folder), view.status.ending
    rank = (ending.rank if ending else None) or 0
    folder = run.logs / str(view.status.attempt)
    for path in (run.batch_log, folder / f"{rank}.out", folder / f"{rank}.err"):
        if lines and path.exists() and (text := tail(path, lines)).strip():
            typer.echo(f"\n==> {path.relative_to(run.path)} <==\n{text}")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(show)
