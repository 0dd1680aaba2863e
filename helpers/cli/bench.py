"""``helpers bench``: how fast training is here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES, JOB_FAILED

if TYPE_CHECKING:
    from helpers.doctor.scaling.workload import Workload

HELP = "Measure how fast training is here."
SCALING_HELP = """Train with 1, 2, 4, … GPUs, one job after another, and tell images in a second and the efficiency.

ResNet-50 on GPUs, a small model on a CPU, which takes a minute. An efficiency is told only where it means something:
not where processes share CPUs or GPUs, clocks were lowered, or training waited for its data.

\b
  helpers bench scaling --gpus 1,2,4,8
  helpers bench scaling --gpus 1,4 --data real --folder /data/imagenet/train --partition gpu

Written into --out: scaling.json, and scaling.png where matplotlib is installed.
"""
_ON_CPU, _ON_GPUS = "1,2", "1,2,4,8"


def scaling(
    *,
    gpus: Annotated[
        str | None, typer.Option(metavar="N,N,…", help=f"Unset, {_ON_GPUS}; without GPUs, {_ON_CPU} processes.")
    ] = None,
    data: Annotated[str, typer.Option(help="synthetic, or real: images that workers decode.")] = "synthetic",
    folder: Annotated[Path | None, typer.Option(help="JPEG, PNG or npz files for real data; unset, made.")] = None,
    model: Annotated[str | None, typer.Option(help="resnet50 or small; unset, by the device.")] = None,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Images per step and process.")] = None,
    precision: Annotated[str | None, typer.Option(help="bf16, fp16 or fp32; unset, by the device.")] = None,
    layout: Annotated[str, typer.Option(help="channels_last or contiguous.")] = "channels_last",
    workers: Annotated[int | None, typer.Option(metavar="N", help="Of each process, for real data.")] = None,
    warmup: Annotated[int, typer.Option(metavar="N", help="Iterations that are not timed.")] = 10,
    rounds: Annotated[int, typer.Option(metavar="N", help="Rounds that are timed.")] = 5,
    iterations: Annotated[int | None, typer.Option(metavar="N", help="Of each round; unset, by the model.")] = None,
    cpus: Annotated[int | None, typer.Option(metavar="N", help="For each process.")] = None,
    time: Annotated[str, typer.Option(help="Limit of each job.")] = "20min",
    partition: Annotated[str | None, typer.Option(help="Unset, the cluster's default.")] = None,
    cluster: Annotated[str | None, typer.Option(help="auto, slurm or local.")] = None,
    out: Annotated[Path, typer.Option(help="A folder for the report.")] = Path("scaling"),
    as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False,
) -> None:
    """Measure; see SCALING_HELP."""
    from helpers.cli.report import note
    from helpers.doctor.scaling.report import judge
    from helpers.doctor.scaling.running import make_images, run_all, there_are_gpus
    from helpers.doctor.scaling.workload import Workload, parse_counts

    counts = parse_counts(gpus or (_ON_GPUS if there_are_gpus(cluster) else _ON_CPU))
    images = (out / "images" if folder is None else folder).absolute()
    workload = Workload(
        model=model,
        data=data,
        folder=str(images),
        batch=batch,
        precision_asked=precision,
        layout=layout,
        workers=workers,
        warmup=warmup,
        rounds=rounds,
        iterations=iterations,
    )
    if data == "real" and folder is None:
        make_images(images)
    asked = {"time": time, "cpus": cpus, "partition": partition, "cluster": cluster}
    settings = {name: value for name, value in asked.items() if value is not None}
    records = judge(run_all(counts, workload, settings=settings, tell=note))
    _write(records, workload, out)
    _print(records, out, as_json=as_json)
    if any("error" in record for record in records):
        raise typer.Exit(JOB_FAILED)


def _write(records: list[dict[str, Any]], workload: Workload, out: Path) -> None:
    from helpers.cli.report import note
    from helpers.doctor.scaling.report import PUBLISHED, PUBLISHED_WORDS, draw
    from helpers.runtime.files import write_json

    out.mkdir(parents=True, exist_ok=True)
    published = {"what": PUBLISHED_WORDS, "images_per_s": {str(count): speed for count, speed in PUBLISHED.items()}}
    write_json(out / "scaling.json", {"workload": workload.keywords(), "runs": records, "published": published})
    if any("error" not in record for record in records) and not draw(records, out / "scaling.png"):
        note("no picture: matplotlib is not installed")


def _print(records: list[dict[str, Any]], out: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo((out / "scaling.json").read_text(encoding="utf-8"), nl=False)
        return
    from helpers.cli.table import print_table
    from helpers.doctor.scaling.report import rows, titles, words

    print_table(titles(records), rows(records))
    typer.echo("\n" + "\n".join(words(records)))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)  # so that a single command keeps its name
    group.command(help=SCALING_HELP, epilog=EXIT_CODES)(scaling)
    app.add_typer(group, name="bench", rich_help_panel=PROJECT)
