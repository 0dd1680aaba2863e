"""``helpers notebook``: Jupyter on a node, and the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.submission.jobs.job import Job

_POLL_S = 0.3
_HIGHEST_PORT = 65535

HELP = """Start Jupyter as a job, and print the line that brings it to your own machine, and its address there.

\b
  helpers notebook --gpus 1 --time 4h

It is a job like any other: helpers status shows it, helpers cancel ends it; it ends by itself at its time limit.
Jupyter has to be installed in this environment: pip install jupyterlab
"""


def notebook(
    *,
    gpus: Annotated[str | None, typer.Option(metavar="N|TYPE:N", help="GPUs: 1, a100:1, 2g.10gb:1.")] = None,
    time: Annotated[str | None, typer.Option(help="Time limit: 4h, 30min, or minutes.")] = None,
    cpus: Annotated[str | None, typer.Option(metavar="N", help="CPUs; unset, the fair share for the GPUs.")] = None,
    mem: Annotated[str | None, typer.Option(help="Host memory: 64G; unset, the fair share for the GPUs.")] = None,
    partition: Annotated[str | None, typer.Option(help="Unset, as for helpers submit.")] = None,
    account: Annotated[str | None, typer.Option(help="Who is billed.")] = None,
    qos: Annotated[str | None, typer.Option(help="Quality of service.")] = None,
    cluster: Annotated[str | None, typer.Option(help="auto, slurm, local (this machine).")] = None,
    port: Annotated[int, typer.Option(help="On your own machine.")] = 8888,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the batch script; queue nothing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object: id, tunnel, url; of a dry run its script.")
    ] = False,
) -> None:
    """Start Jupyter as a job; see HELP."""
    import sys

    from helpers.cli.submit import as_number, print_job, words_aside
    from helpers.errors import InvalidRequest
    from helpers.runtime.notebook import find_application
    from helpers.submission.command import submit_command

    if not 1 <= port <= _HIGHEST_PORT:
        raise InvalidRequest(f"A port is a number from 1 to {_HIGHEST_PORT}; got {port}.", hint="--port 8888")
    if find_application() is None:
        raise InvalidRequest(
            f"Jupyter is not installed in this environment ({sys.prefix}).", hint="pip install jupyterlab"
        )
    asked = {
        "gpus": gpus, "time": as_number(time), "cpus": as_number(cpus), "mem": mem, "partition": partition,
        "account": account, "qos": qos, "cluster": cluster, "dry_run": dry_run or None,
    }  # fmt: skip
    settings = {name: value for name, value in asked.items() if value is not None}
    words = [sys.executable, "-u", "-P", "-m", "helpers.runtime.notebook"]
    with words_aside(aside=as_json and dry_run):
        job: Any = submit_command(words, name="notebook", requeue=False, **settings)
    if dry_run and as_json:
        print_job(job)
    elif not dry_run:
        _print_way(job, port, as_json=as_json)


def _print_way(job: Job[int], port: int, *, as_json: bool) -> None:
    from helpers.cli.following import interruption_explained
    from helpers.cli.report import note

    with interruption_explained(job):
        where = _wait_for_address(job)
    tunnel = _tunnel(where, port, on_slurm=job.description.cluster == "slurm")
    url = f"http://127.0.0.1:{port}/?token={where['token']}"
    if not tunnel:
        url = f"http://127.0.0.1:{where['port']}/?token={where['token']}"
    if as_json:
        print_json({"id": job.id, "tunnel": tunnel, "url": url})
        return
    if tunnel:
        note("on your own machine, in a terminal that stays open:")
        typer.echo(tunnel)
        note("and there in a browser:")
    typer.echo(url)
    note(f"it ends with: helpers cancel {job.id}")


def _wait_for_address(job: Job[int]) -> dict[str, Any]:
    """Wait until Jupyter's job has started and said where; raise why not, where it has ended before."""
    import time

    from helpers.errors import InvalidRequest
    from helpers.runtime.files import read_json
    from helpers.runtime.run.folder import RunFolder

    file = RunFolder(job.folder).private / "notebook.json"
    while True:
        ended = job.done()
        if not ended and (where := read_json(file)) is not None:
            found: dict[str, Any] = where
            return found
        if ended:
            if (error := job.exception()) is not None:
                raise error
            raise InvalidRequest("Jupyter has ended already.", hint=f"helpers logs {job.id}")
        time.sleep(_POLL_S)


def _tunnel(where: dict[str, Any], port: int, *, on_slurm: bool) -> str | None:
    """Return the line for ssh, by this machine to Jupyter's; None for somebody who sits before this machine."""
    import getpass
    import os
    import shlex

    if not on_slurm and "SSH_CONNECTION" not in os.environ:
        return None
    node = shlex.quote(where["node"]) if on_slurm else "127.0.0.1"
    return f"ssh -N -L {port}:{node}:{where['port']} {shlex.quote(getpass.getuser())}@{os.uname().nodename}"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(notebook)
