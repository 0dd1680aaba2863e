"""``helpers doctor``: checks that judge, each with what it means and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES, JOB_FAILED

if TYPE_CHECKING:
    from helpers.doctor.step import Step

HELP = """Find what is wrong, from the environment up to a small training, and say what to do about it.

\b
  environment   interpreter, packages, and what leaks into them
  slurm         squeue, sinfo and the accounting answer
  device        what torch trains on
  multiply      the device's arithmetic: right, and how fast
  all-reduce    two processes find each other, and how fast they talk
  training      a loss falls; a checkpoint is saved and restored

A fault hides none of the other steps. With --gpus 1 the last four run on a compute node.
"""
CODES = """\b
Exit codes:
  0    no fault, though there may be warnings
  1    at least one fault
"""
SIGNALS_HELP = """Submit a job of two minutes at most that tells which process gets which signal on this cluster.

And what that means: how long a preempted job has to save, and whether a warning reaches the function at all.
"""


def ladder(
    *,
    ctx: typer.Context,
    gpus: Annotated[
        str | None, typer.Option(metavar="N|TYPE:N", help="Take the steps from device on in a job with these GPUs.")
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Of that job; unset, the cluster's default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")] = False,
) -> None:
    """Take all steps, unless a subcommand is asked for; see HELP."""
    if ctx.invoked_subcommand is not None:
        return
    from helpers.doctor.ladder import climb
    from helpers.errors import InvalidRequest

    if partition is not None and gpus is None:
        raise InvalidRequest("--partition is where the job of --gpus runs.", hint="helpers doctor --gpus 1")
    steps = climb(gpus=gpus, partition=partition)
    if as_json:
        from dataclasses import asdict

        print_json([asdict(step) for step in steps])
    else:
        _print(steps)
    if any(step.verdict == "fault" for step in steps):
        raise typer.Exit(JOB_FAILED)


def _print(steps: list[Step]) -> None:
    """Print one line a step, and under the table what to do."""
    from helpers.cli.table import print_table

    several = len({step.where for step in steps}) > 1
    titles = ("step", *(("where",) if several else ()), "verdict", "time", "found")
    print_table(
        titles,
        [
            (
                step.name,
                *((step.where,) if several else ()),
                step.verdict,
                f"{step.seconds:.1f}s" if step.seconds else "",
                step.found,
            )
            for step in steps
        ],
    )
    wrong: dict[tuple[str, str, str], list[str]] = {}
    for step in steps:
        if step.verdict != "ok":
            wrong.setdefault((step.verdict, step.found, step.cure), []).append(step.name)
    for (verdict, found, cure), names in wrong.items():
        words = f"\n  cure: {cure}" if cure else ""
        typer.echo(f"\n{verdict} in {', '.join(dict.fromkeys(names))}: {found}{words}")


def signals(
    *,
    partition: Annotated[str | None, typer.Option(help="Where it runs; unset, the cluster's default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False,
) -> None:
    """Probe signals; see SIGNALS_HELP."""
    from dataclasses import asdict

    from helpers.doctor.signals import probe_signals

    report = probe_signals(partition=partition)
    if as_json:
        print_json(asdict(report))
    else:
        typer.echo("\n".join(report.lines()))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, epilog=CODES, rich_markup_mode=None)
    group.callback(invoke_without_command=True)(ladder)
    group.command(help=SIGNALS_HELP, epilog=EXIT_CODES)(signals)
    app.add_typer(group, name="doctor", help=HELP, epilog=CODES, rich_help_panel=PROJECT)
