"""The command line. Heavy imports stand inside the commands, so that ``--help`` answers at once."""

from pathlib import Path
from typing import Annotated

import typer
from helpers.cli.commands import Commands

from .config import Config

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

JOB = "The job (what is unset, helpers decides and says)"


@app.command()
def train(
    *,
    epochs: Annotated[int, typer.Option(min=1, help="Times to go through the images.")] = Config.epochs,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per step and process.")] = Config.batch_size,
    lr: Annotated[float, typer.Option(help="Step size of the optimizer.")] = Config.lr,
    seed: Annotated[int, typer.Option(help="Start of all random numbers.")] = Config.seed,
    data: Annotated[Path, typer.Option(help="The raw file, or what prepare made.", show_default=False)] = Config.data,
    gpus: Annotated[str | None, typer.Option(help="GPUs in all: 4, or a100:4.", rich_help_panel=JOB)] = None,
    nodes: Annotated[int | None, typer.Option(help="Machines; unset, what it takes.", rich_help_panel=JOB)] = None,
    processes: Annotated[int | None, typer.Option(help="Processes in all.", rich_help_panel=JOB)] = None,
    mem: Annotated[str | None, typer.Option(help="Host memory on each node: 64G.", rich_help_panel=JOB)] = None,
    time: Annotated[str | None, typer.Option(help="Time limit: 8h, 30min, or minutes.", rich_help_panel=JOB)] = None,
    partition: Annotated[str | None, typer.Option(help="Partition of the cluster.", rich_help_panel=JOB)] = None,
    cluster: Annotated[str, typer.Option(help="auto, slurm or local.", rich_help_panel=JOB)] = "auto",
    here: Annotated[bool, typer.Option("--here", help="Train in this process.", rich_help_panel=JOB)] = False,
    follow: Annotated[bool, typer.Option(help="Show the log until it ends.", rich_help_panel=JOB)] = True,
    once: Annotated[
        Path | None,
        typer.Option(help="Write the run here; take up the one that an interrupted call began.", rich_help_panel=JOB),
    ] = None,
) -> None:
    """Train a network as a job: on Slurm where there is one, else on this machine."""
    from helpers import submit
    from helpers.cli.following import follow_logs
    from helpers.cli.submit import as_number
    from helpers.project.once import Once

    from .train import train as train_function

    config = Config(epochs=epochs, batch_size=batch_size, lr=lr, seed=seed, data=data.resolve())
    time = as_number(time)
    asked = {"gpus": gpus, "nodes": nodes, "processes": processes, "mem": mem, "time": time, "partition": partition}
    asked = {name: value for name, value in asked.items() if value is not None}
    place = "inline" if here else cluster
    begun = Once(once, asked=(config, asked))
    job = begun.job or submit(train_function, config, name="train", cluster=place, **asked)
    begun.remember(job)
    if follow:
        follow_logs(job, rank=0)
        begun.write(job)
        print(f"test accuracy {job.result():.4f}")
    print(f"files of the run: {job.folder}")
    if not follow:
        print(f"watch it: helpers logs -f {job.id}   end it: helpers cancel {job.id}")


@app.command()
def prepare(
    raw: Annotated[Path, typer.Argument(help="The file as it was received.", show_default=False)] = Config.data,
    prepared: Annotated[Path, typer.Argument(help="What is made of it.", show_default=False)] = Config.prepared,
) -> None:
    """Make of the raw data what training reads quickly: train --data takes it."""
    from .data import prepare as prepare_data

    print(f"{prepare_data(raw, prepared)} images: {prepared}")


@app.command()
def evaluate(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a run, or what train --once wrote; unset, the newest.")
    ] = None,
    reports: Annotated[Path | None, typer.Option(help="Where to write; unset, reports/ in the run.")] = None,
    best: Annotated[bool, typer.Option("--best", help="Take the network that validated best.")] = False,
) -> None:
    """Judge a trained network on the test images, and draw which digits it mixes up."""
    from helpers.config import runs_folder
    from helpers.project.once import run_of

    from .evaluate import evaluate as evaluate_run

    run = run_of(run) if run else newest_run(runs_folder(Path.cwd()) / "train")
    reports = reports or run / "reports"
    print(f"test accuracy {evaluate_run(run, reports, best=best):.4f}")
    print(f"reports: {reports}")


def newest_run(runs: Path) -> Path:
    """Return the newest run in ``runs``; their names begin with the time."""
    found = sorted(path for path in runs.glob("*") if (path / "checkpoints").is_dir())
    if not found:
        raise typer.BadParameter(f"no run with a checkpoint in {runs}; train first, or name one")
    return found[-1]
