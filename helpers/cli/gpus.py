"""``helpers gpus``: what there is, and what is free."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.panels import EVERYDAY
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.submission.gpu_usage import GpuCount, OwnGpu

HELP = """Show which GPUs the cluster has and how many are free now, by partition and type.

A node that is in several partitions counts in each. Free is what a job can get: on a node that takes jobs and has a CPU
left. Where there is no Slurm: the GPUs of this machine.
"""


def gpus(
    *,
    partition: Annotated[str | None, typer.Option(help="Of this partition alone.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")] = False,
) -> None:
    """Show GPUs; see HELP."""
    import os
    from dataclasses import asdict

    from helpers.cli.report import note
    from helpers.errors import InvalidRequest
    from helpers.submission.clusters import slurm_is_configured
    from helpers.submission.gpu_usage import count_cluster_gpus, list_own_gpus

    found: list[GpuCount] | list[OwnGpu]
    if slurm_is_configured(os.environ.get("SLURM_CONF"), os.environ.get("PATH", "")):
        counts = count_cluster_gpus()
        found = [count for count in counts if partition in {None, count.partition}]
        if counts and not found:
            names = ", ".join(dict.fromkeys(count.partition for count in counts))
            raise InvalidRequest(f"No partition {partition!r} has GPUs.", hint=f"with GPUs: {names}")
        if not as_json and found:
            _print_cluster(found)
    else:
        found = list_own_gpus()
        if not as_json and found:
            _print_own(found)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1, ensure_ascii=False))
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


def _print_own(own: list[OwnGpu]) -> None:
    from helpers.cli.table import print_table

    rows = [
        (
            str(gpu.index),
            gpu.name,
            f"{gpu.memory_mb / 1024:.0f}G",
            f"{gpu.used_mb / 1024:.1f}G",
            "–" if gpu.busy_percent is None else f"{gpu.busy_percent}%",
        )
        for gpu in own
    ]
    print_table(("gpu", "name", "memory", "in use", "busy"), rows)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=EVERYDAY)(gpus)
