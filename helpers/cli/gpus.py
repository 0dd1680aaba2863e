"""``helpers gpus``: what there is, and what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.submission.inventory.gpu_usage import GpuCount, Holder, OwnGpu

HELP = """Show which GPUs the cluster has and how many are free now, by partition and type.

A node that is in several partitions counts in each. Free is what a job can get: on a node that takes jobs and has a CPU
left. Where there is no Slurm: the GPUs of this machine, which job holds each, since when, and who waits.
"""


def gpus(
    *,
    partition: Annotated[str | None, typer.Option(help="Of this partition alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")] = False,
) -> None:
    """Show GPUs; see HELP."""
    from dataclasses import asdict

    from helpers.cli.report import note
    from helpers.errors import InvalidRequest
    from helpers.submission.clusters.choice import slurm_is_configured
    from helpers.submission.inventory.gpu_usage import count_cluster_gpus, list_own_gpus, list_waiting

    found: list[GpuCount] | list[OwnGpu]
    if slurm_is_configured():
        counts = count_cluster_gpus()
        found = [count for count in counts if partition in {None, count.partition}]
        if counts and not found:
            names = ", ".join(dict.fromkeys(count.partition for count in counts))
            raise InvalidRequest(f"No partition {partition!r} has GPUs.", hint=f"with GPUs: {names}")
        if not as_json and found:
            _print_cluster(found)
    elif partition is not None:
        raise InvalidRequest(f"There is no Slurm on this machine, so no partition {partition!r}.", hint="helpers gpus")
    else:
        found = list_own_gpus()
        if not as_json and found:
            _print_own(found, list_waiting())
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        note("there are no GPUs")


def _print_cluster(counts: list[GpuCount]) -> None:
    from helpers.cli.table import print_table

    titles = ("partition", "type", "nodes", "gpus", "used", "down", "free", "most on one node")
    rows = [
        (one.partition, one.kind or "–", *map(str, (one.nodes, one.total, one.used, one.down, one.free, one.most_free)))
        for one in counts
    ]
    print_table(titles, rows)


def _print_own(own: list[OwnGpu], waiting: list[Holder]) -> None:
    from helpers.cli.table import moment, print_table

    rows = [
        (
            gpu.index,
            gpu.name,
            "–" if gpu.memory_mb is None else f"{gpu.memory_mb / 1024:.0f}G",
            "–" if gpu.used_mb is None else f"{gpu.used_mb / 1024:.1f}G",
            "–" if gpu.busy_percent is None else f"{gpu.busy_percent}%",
            *_who(gpu),
        )
        for gpu in own
    ]
    print_table(("gpu", "name", "memory", "in use", "busy", "who", "since", "what"), rows)
    if waiting:
        typer.echo("\nwaiting, in this order:")
        turns = [(f"{one.job} of {one.user}", str(one.gpus), moment(one.since), one.folder) for one in waiting]
        print_table(("job", "gpus", "since", "what"), turns)


def _who(gpu: OwnGpu) -> tuple[str, str, str]:
    """Return who has it, since when, and what that is."""
    from helpers.cli.table import moment, span

    if gpu.held_by is None:
        return ("no lease" if gpu.used_by else "free", "", gpu.used_by)
    idle = "" if gpu.idle_s is None else f"idle for {span(gpu.idle_s)}, "
    holder = gpu.held_by
    return (f"{holder.job} of {holder.user}", moment(holder.since), f"{idle}pid {holder.pid}, {holder.folder}")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(gpus)
