"""``helpers submit``: queue one call of a function."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.completion import complete_job
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

The id goes to stdout (with --json an object of id, name and folder; of a dry run its script, choices and estimate), all
other words to stderr; what is unset, the cluster decides.
"""


_Target = Annotated[str, typer.Argument(metavar="MODULE:FUNCTION | -- PROGRAM", help="What each process runs.")]
_Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE", help="Its arguments; after -- one that begins with a dash."),
]
_Gpus = Annotated[str | None, typer.Option(metavar="N|TYPE:N", help="GPUs in all: 4, a100:4, 2g.10gb:1.")]
_Time = Annotated[str | None, typer.Option(help="Time limit: 8h, 30min, 1-00:00:00, or minutes.")]
_Nodes = Annotated[str | None, typer.Option(metavar="N", help="Machines.")]
_Processes = Annotated[str | None, typer.Option(metavar="N", help="Processes in all; unset, one per GPU.")]
_Cpus = Annotated[str | None, typer.Option(metavar="N", help="CPUs for each process.")]
_Mem = Annotated[str | None, typer.Option(help="Host memory on each node: 64G, 500M; 64 is 64G.")]
_Partition = Annotated[str | None, typer.Option(help="Unset, the cluster's default.")]
_Account = Annotated[str | None, typer.Option(help="Who is billed.")]
_Qos = Annotated[str | None, typer.Option(help="Quality of service.")]
_TotalTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Of all attempts together, over any limit of one: 7d.")
]
_After = Annotated[
    list[str] | None,
    typer.Option(metavar="JOB", help="Once this one has succeeded; may be repeated.", autocompletion=complete_job),
]
_Name = Annotated[str | None, typer.Option(help="Of the run; unset, the function's name.")]
_Setup = Annotated[list[str] | None, typer.Option(metavar="LINE", help="Shell line to run before it; may be repeated.")]
_Requeue = Annotated[
    bool | None, typer.Option("--requeue/--no-requeue", help="Run again after a stop; unset, if it can resume.")
]
_Slurm = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Any sbatch option by its long name; may be repeated.")
]
_Profile = Annotated[str | None, typer.Option(help="Settings by their name; helpers config explain.")]
_Container = Annotated[str | None, typer.Option(metavar="IMAGE", help="Run in it: image.sif, a folder, docker://….")]
_Launcher = Annotated[str | None, typer.Option(help="mpi: the ranks of an MPI program; unset, srun's own.")]
_Cluster = Annotated[
    str | None, typer.Option(help="auto, slurm, local (this machine), inline (this process); unset, auto.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the batch script; queue nothing.")]
_Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; print what the function returned.")]
_Follow = Annotated[bool, typer.Option("--follow", "-f", help="As --wait, and show what rank 0 prints.")]
_Json = Annotated[bool, typer.Option("--json", help="A JSON object, for programs; not with --wait.")]


def submit(
    *,
    ctx: typer.Context,
    target: _Target,
    words: _Words = None,
    gpus: _Gpus = None,
    time: _Time = None,
    nodes: _Nodes = None,
    processes: _Processes = None,
    cpus: _Cpus = None,
    mem: _Mem = None,
    partition: _Partition = None,
    account: _Account = None,
    qos: _Qos = None,
    total_time: _TotalTime = None,
    after: _After = None,
    name: _Name = None,
    setup: _Setup = None,
    requeue: _Requeue = None,
    slurm: _Slurm = None,
    profile: _Profile = None,
    container: _Container = None,
    launcher: _Launcher = None,
    cluster: _Cluster = None,
    dry_run: _DryRun = False,
    wait: _Wait = False,
    follow: _Follow = False,
    as_json: _Json = False,
) -> None:
    """Queue one call; see HELP."""
    from helpers.cli.values import parse_slurm_options
    from helpers.errors import InvalidRequest

    asked = {
        "gpus": gpus, "time": as_number(time), "nodes": as_number(nodes), "processes": as_number(processes),
        "cpus": as_number(cpus),
        "mem": mem, "partition": partition, "account": account, "qos": qos, "name": name, "setup": setup,
        "total_time": as_number(total_time), "after": after, "requeue": requeue,
        "slurm": parse_slurm_options(slurm or []), "cluster": cluster, "dry_run": dry_run,
        "profile": profile, "container": container, "launcher": launcher,
    }  # fmt: skip
    settings = {key: value for key, value in asked.items() if value is not None}
    _refuse_empty(settings)
    if as_json and (wait or follow):
        raise InvalidRequest(
            "--json is the answer of a submission that does not wait.", hint="helpers status ID --json"
        )
    with words_aside(aside=as_json):
        job = _submit(target, words or [], settings, is_program=is_program(ctx))
    if as_json:
        print_job(job)
    else:
        _answer(job, wait=wait or follow, with_logs=follow)


def _answer(job: Any, *, wait: bool, with_logs: bool) -> None:
    """Print the job's id; where somebody waits for it, what becomes of it."""
    from helpers.submission.submit import Preview

    if isinstance(job, Preview):
        return  # it has been printed
    is_inline = job.description.cluster == "inline"  # the settings may say so
    if wait or is_inline:
        from helpers.cli.following import wait_for_result

        wait_for_result(job, with_logs=with_logs and not is_inline)
        return
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


def words_aside(*, aside: bool) -> contextlib.AbstractContextManager[Any]:
    """Send what a submission prints to stderr, where stdout is for a program."""
    return contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext()


def print_job(job: Any) -> None:
    """Print a job, or what a dry run would submit, as an object."""
    from dataclasses import asdict

    from helpers.submission.submit import Preview

    print_json(asdict(job) if isinstance(job, Preview) else {"id": job.id, "name": job.name, "folder": job.folder})


def as_number(text: str | None) -> str | int | None:
    """Take a whole number as one; whether a text will do instead (``8h``), the rules of ``submit`` say."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else text


def _refuse_empty(settings: dict[str, Any]) -> None:
    """Refuse ``--name "$NAME"`` where the variable is empty, instead of doing something else than was meant."""
    from helpers.errors import InvalidRequest

    for name, value in settings.items():
        if value == "" or (isinstance(value, list) and "" in value):
            option = f"--{name.replace('_', '-')}"
            raise InvalidRequest(f"{option} is given, and is empty.", hint=f"leave {option} out")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(cls=SubmitCommand, help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(submit)
