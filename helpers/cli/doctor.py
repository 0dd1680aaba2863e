"""``helpers doctor``: checks that judge, each with what it means."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES

HELP = "Check the cluster, and say what was found."
SIGNALS_HELP = """Submit a job of two minutes at most that tells which process gets which signal on this cluster.

And what that means: how long a preempted job has to save, and whether a warning reaches the function at all.
"""


def signals(
    *,
    partition: Annotated[str | None, typer.Option(help="Where it runs; unset, the cluster's default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False,
) -> None:
    """Probe signals; see SIGNALS_HELP."""
    from helpers.doctor import signals as doctor

    report = doctor.probe_signals(partition=partition)
    typer.echo(doctor.as_json(report) if as_json else "\n".join(report.lines()))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)  # so that a single command keeps its name
    group.command(help=SIGNALS_HELP, epilog=EXIT_CODES)(signals)
    app.add_typer(group, name="doctor", rich_help_panel=PROJECT)
