"""``helpers submit``: queue one call of a function."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from helpers.cli.panels import EVERYDAY
from helpers.cli.program import SubmitCommand, is_program
from helpers.cli.report import EXIT_CODES, note

HELP = """Submit a function or a program as a job, and print the job's id.

\b
  helpers submit train:main lr=1e-3 layers=[64,64] name=first --gpus 4 --time 8h
  helpers submit train:main data/train.csv --follow
  helpers submit --gpus 1 --time 8h -- Rscript fit.R

The module is found from the current folder, as by python -m. What follows the function are its arguments:
name=value for a keyword argument, anything else for a positional one. A value is a Python literal where it is
one (1e-3, [1,2], {'a': 1}, None), true or false, else text; a parameter annotated str always gets the text.

After -- stands a program with its arguments, which no shell reads; exit code 75 asks for another run.

The id goes to stdout, all other words to stderr; what is unset, the cluster decides.
"""


def submit(
    *,
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION | -- PROGRAM", help="What each process runs.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments; after -- one that begins with a dash."),
    ] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N|TYPE:N", help="GPUs in all: 4, a100:4, 2g.10gb:1.")] = None,
    time: Annotated[str | None, typer.Option(help="Time limit: 8h, 30min, 1-00:00:00, or minutes.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Machines.")] = None,
    processes: Annotated[int | None, typer.Option(help="Processes in all; unset, one per GPU.")] = None,
    cpus: Annotated[int | None, typer.Option(help="CPUs for each process.")] = None,
    mem: Annotated[str | None, typer.Option(help="Host memory on each node: 64G, 500M; 64 is 64G.")] = None,
    partition: Annotated[str | None, typer.Option(help="Unset, the cluster's default.")] = None,
    account: Annotated[str | None, typer.Option(help="Who is billed.")] = None,
    qos: Annotated[str | None, typer.Option(help="Quality of service.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the run; unset, the function's name.")] = None,
    setup: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="Shell line to run before it; may be repeated.")
    ] = None,
    requeue: Annotated[
        bool | None,
        typer.Option("--requeue/--no-requeue", help="Run again after a stop; unset, if it can resume."),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Any sbatch option by its long name; may be repeated."),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Settings by their name; helpers config explain.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="auto, slurm, local (this machine), inline (this process); unset, auto.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the batch script; queue nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; print what the function returned.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="As --wait, and show what rank 0 prints.")] = False,
) -> None:
    """Queue one call; see HELP."""
    from helpers.cli.values import parse_slurm_options
    from helpers.submission.submit import Preview

    asked = {
        "gpus": gpus, "time": minutes_if_number(time), "nodes": nodes, "processes": processes, "cpus": cpus,
        "mem": mem, "partition": partition, "account": account, "qos": qos, "name": name, "setup": setup,
        "requeue": requeue, "slurm": parse_slurm_options(slurm or []), "cluster": cluster, "dry_run": dry_run,
        "profile": profile,
    }  # fmt: skip
    settings = {key: value for key, value in asked.items() if value is not None}
    job = _submit(target, words or [], settings, is_program=is_program(ctx))
    if isinstance(job, Preview):
        return  # it has been printed
    is_inline = job.description.cluster == "inline"  # the settings may say so
    if wait or follow or is_inline:
        from helpers.cli.following import wait_for_result

        wait_for_result(job, with_logs=follow and not is_inline)
    else:
        typer.echo(job.id)
        if sys.stderr.isatty():  # a script needs no advice
            note(f"watch it: helpers logs -f {job.id}   all runs: helpers status")


def _submit(target: str, words: list[str], settings: dict[str, Any], *, is_program: bool) -> Any:
    if is_program:
        from helpers.submission.command import submit_command

        return submit_command([target, *words], **settings)
    from helpers.cli.target import load_function
    from helpers.cli.values import parse_call, split_words
    from helpers.submission.submit import Executor

    function = load_function(target)
    args, kwargs = parse_call(function, split_words(words))
    return Executor(**settings).submit(function, *args, **kwargs)


def minutes_if_number(text: str | None) -> str | int | None:
    """Take a bare number as minutes, as ``sbatch --time`` and ``submit(time=…)`` do."""
    return int(text) if text is not None and text.isdecimal() else text


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(cls=SubmitCommand, help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(submit)
