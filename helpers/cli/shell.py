"""``helpers shell``: work on a node of the cluster, by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

HELP = """Open a shell on a node of the cluster, or run a program there with this terminal.

\b
  helpers shell --gpus 1
  helpers shell --gpus 1 --time 2h -- python -i train.py

It goes to the partition that is meant for it (by its name: interactive, debug, devel, test), else to where a job would
go, for an hour unless --time says otherwise. Leaving the shell gives the node back. Its exit code is the command's.
"""


def shell(
    *,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM", help="After --: in place of your shell.")
    ] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N|TYPE:N", help="GPUs: 1, a100:1, 2g.10gb:1.")] = None,
    time: Annotated[str | None, typer.Option(help="Time limit: 2h, 30min, or minutes; unset, an hour.")] = None,
    cpus: Annotated[str | None, typer.Option(metavar="N", help="CPUs; unset, the fair share for the GPUs.")] = None,
    mem: Annotated[str | None, typer.Option(help="Host memory: 64G; unset, the fair share for the GPUs.")] = None,
    partition: Annotated[str | None, typer.Option(help="Unset, the one meant for it.")] = None,
    account: Annotated[str | None, typer.Option(help="Who is billed.")] = None,
    qos: Annotated[str | None, typer.Option(help="Quality of service.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the command; ask for nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: the command as a JSON list.")] = False,
) -> None:
    """Open a shell on a node; see HELP."""
    import os
    import shlex
    import sys

    from helpers.cli.report import note
    from helpers.cli.submit import as_number
    from helpers.errors import InvalidRequest
    from helpers.runtime.environment import without_scheduler_variables
    from helpers.submission.clusters.choice import slurm_is_configured
    from helpers.submission.clusters.session import plan_session, session_command

    if not slurm_is_configured():
        raise InvalidRequest("There is no Slurm on this machine: this shell is all there is.")
    asked = {
        "gpus": gpus, "time": as_number(time), "cpus": as_number(cpus), "mem": mem, "partition": partition,
        "account": account, "qos": qos,
    }  # fmt: skip
    resources = plan_session(**{name: value for name, value in asked.items() if value is not None})
    command = session_command(resources, words or [])
    if dry_run:
        if as_json:
            print_json(command)
        else:
            typer.echo(shlex.join(command))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest("A shell needs a terminal.", hint="helpers submit -- PROGRAM needs none")
    note(f"{resources.sentence()}; waiting for a node (Ctrl-C gives up)")
    os.execvpe(command[0], command, without_scheduler_variables(os.environ))  # noqa: S606 -- srun takes the terminal


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(shell)
