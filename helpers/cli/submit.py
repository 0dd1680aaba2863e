"""``helpers submit``: queue one call of a function."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from helpers.cli.report import EXIT_CODES, note

HELP = """Submit a function as a job, and print the job's id.

\b
  helpers submit train:main lr=1e-3 layers=[64,64] name=first --gpus 4 --time 8h
  helpers submit train:main data/train.csv --follow

The module is found from the current folder, as by python -m. What follows the function are its arguments:
name=value for a keyword argument, anything else for a positional one. A value is a Python literal where it is
one (1e-3, [1,2], {'a': 1}, None), true or false, else text; a parameter annotated str always gets the text.

The id goes to stdout, all other words to stderr; what is unset, the cluster decides.
"""


def submit(
    *,
    target: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What each process calls.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments; after -- one that begins with a dash."),
    ] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N|TYPE:N", help="GPUs in all: 4, a100:4, 2g.10gb:1.")] = None,
    time: Annotated[str | None, typer.Option(help="Time limit: 8h, 30min, 1-00:00:00, or minutes.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Machines.")] = None,
    processes: Annotated[int | None, typer.Option(help="Processes in all; unset, one per GPU.")] = None,
    cpus: Annotated[int | None, typer.Option(help="CPUs for each process.")] = None,
    mem: Annotated[str | None, typer.Option(help="Host memory on each node: 64G, 500M.")] = None,
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
    cluster: Annotated[str, typer.Option(help="auto, slurm, local (this machine), inline (this process).")] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the batch script; queue nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; print what the function returned.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="As --wait, and show what rank 0 prints.")] = False,
) -> None:
    """Queue one call; see HELP."""
    from helpers.cli.target import load_function
    from helpers.cli.values import parse_call, parse_slurm_options, split_words
    from helpers.submission.submit import Executor, Preview

    function = load_function(target)
    args, kwargs = parse_call(function, split_words(words or []))
    asked = {
        "gpus": gpus, "time": _minutes_if_number(time), "nodes": nodes, "processes": processes, "cpus": cpus,
        "mem": mem, "partition": partition, "account": account, "qos": qos, "name": name, "setup": setup,
        "requeue": requeue, "slurm": parse_slurm_options(slurm or []), "cluster": cluster, "dry_run": dry_run,
    }  # fmt: skip
    settings = {key: value for key, value in asked.items() if value is not None}
    job: Any = Executor(**settings).submit(function, *args, **kwargs)
    if isinstance(job, Preview):
        return  # it has been printed
    if wait or follow or cluster == "inline":
        from helpers.cli.following import wait_for_result

        wait_for_result(job, with_logs=follow and cluster != "inline")
    else:
        typer.echo(job.id)
        if sys.stderr.isatty():  # a script needs no advice
            note(f"watch it: helpers logs -f {job.id}   all runs: helpers status")


def _minutes_if_number(text: str | None) -> str | int | None:
    """Take a bare number as minutes, as ``sbatch --time`` and ``submit(time=…)`` do."""
    return int(text) if text is not None and text.isdecimal() else text


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES)(submit)
