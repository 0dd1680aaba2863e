"""``helpers env``: one list of dependencies, the files made from it, and what breaks environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.commands import Commands
from helpers.cli.panels import PROJECT
from helpers.cli.report import note

HELP = "Make environment files from pyproject.toml, and find what breaks the environment."
EXIT_CODES = """\b
Exit codes:
  0    done; sync: the files agree; check: nothing was found
  1    sync: they differ; check: something was found
  2    the request breaks a rule
"""
SYNC_HELP = """Make environment.yml and container.def from pyproject.toml, the one list of dependencies.

With --lock also requirements.lock: the versions that are installed now; a lock that is there already is brought up to
the list, once what is new is installed. --check changes nothing and shows how the files differ from the list: for a
pre-commit hook. A file that was not made by this command is the project's own, and is left. No network.
"""
CHECK_HELP = """Find what breaks environments, each with its cure.

Packages of two owners, conda after pip, packages of the home folder, PYTHONPATH, another interpreter, LD_LIBRARY_PATH,
login files, a foreign helpers, another build of torch. It looks at files only, and changes nothing.
"""
BUILD_HELP = """Build the environment as a job: conda chooses by the driver that it sees, and login nodes have none.

With --on-gpu the job asks for a GPU; without, CONDA_OVERRIDE_CUDA tells conda for which CUDA. It fails where pip has
replaced what conda installed.
"""
ADOPT_HELP = """Take a list of packages of elsewhere into pyproject.toml, then make the files anew.

It is a requirements file, or a conda file (.yml). What the list has already stays; what it has no place for is said.
The project's own environment.yml is kept as environment.before.yml, since one is made in its place.
"""

app = typer.Typer(cls=Commands, help=HELP, epilog=EXIT_CODES, no_args_is_help=True, rich_markup_mode=None)


@app.command(help=SYNC_HELP)
def sync(
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; show how the files differ.")] = False,
    lock: Annotated[bool, typer.Option("--lock", help="Pin what is installed now, too.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object, for programs: what was written, how files differ.")
    ] = False,
) -> None:
    """Make the files; see SYNC_HELP."""
    from helpers.project.environment.sync import differences
    from helpers.project.environment.sync import sync as write

    project = _project()
    changed = [] if check else write(project, lock=lock)
    lines = differences(project)
    if as_json:
        print_json({"written": changed, "differences": lines})
    elif not check:
        typer.echo(f"written: {', '.join(changed)}" if changed else "all as pyproject.toml says")
    if not check:
        _note_own_files(project)
    if lines:
        if not as_json:
            typer.echo("\n".join(lines))
        cure = "helpers env sync" if check else "make setup, or pip install what is new, then: helpers env sync"
        note(f"the files differ from pyproject.toml: {cure}")
        raise typer.Exit(1)


@app.command(help=CHECK_HELP)
def check(
    *,
    prefix: Annotated[
        Path | None, typer.Option(help="Another environment's folder: what is installed there, no surroundings.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")] = False,
) -> None:
    """Look at an environment, this process's unless one is named; see CHECK_HELP."""
    from dataclasses import asdict

    from helpers.config import find_project, working_directory
    from helpers.project.environment.check import check_environment, check_packages
    from helpers.project.environment.place import Place
    from helpers.project.environment.requirements import read_dependencies

    project = find_project(working_directory())
    cuda = read_dependencies(project).cuda if project is not None else ""
    if prefix is not None:
        place = Place.at(prefix.absolute())
        found = check_packages(place, cuda=cuda)
    else:
        place = Place.here()
        found = check_environment(place, cuda=cuda, project=project)
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        for finding in found:
            typer.echo(f"{finding.text}\n    {finding.cure}")
        if not found:
            typer.echo(f"nothing is wrong with {place.prefix}")
    if found:
        raise typer.Exit(1)


@app.command(help=BUILD_HELP)
def build(
    *,
    folder: Annotated[Path, typer.Option(help="Where it is made.")] = Path(".conda"),
    on_gpu: Annotated[bool, typer.Option("--on-gpu", help="On a node with a GPU.")] = False,
    cuda: Annotated[str, typer.Option(help="Without a GPU: the CUDA to build for.")] = "12.6",
    time: Annotated[str, typer.Option(help="Time limit.")] = "1h",
    partition: Annotated[str | None, typer.Option(help="Unset, the cluster's default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the batch script; queue nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object, for programs: as of helpers submit.")] = False,
) -> None:
    """Submit the job that builds; see BUILD_HELP."""
    from helpers.cli.submit import print_job, words_aside
    from helpers.project.environment.build import build as submit_build

    keywords = {"time": time, "partition": partition, "dry_run": dry_run}
    with words_aside(aside=as_json):
        job = submit_build(_project(), folder, on_gpu=on_gpu, cuda=cuda, **keywords)
    if as_json:
        print_job(job)
    elif not dry_run:
        typer.echo(job.id)


@app.command(help=ADOPT_HELP)
def adopt(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="requirements.txt, environment.yml")],
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object, for programs: what became of each line, what was written.")
    ] = False,
) -> None:
    """Add what it asks for; see ADOPT_HELP."""
    from dataclasses import asdict

    from helpers.project.environment.adoption import adopt as adopt_file
    from helpers.project.environment.generated import CONDA_FILE
    from helpers.project.environment.sync import sync as write

    project = _project()
    adopted = adopt_file(project, file)
    changed = write(project)
    if as_json:
        print_json(asdict(adopted) | {"written": changed})
        return
    for words, lines in (
        ("by conda", adopted.conda),
        ("by pip", adopted.pip),
        ("by conda alone", adopted.conda_only),
        ("there already, kept as it is", adopted.known),
        ("left out, no requirement", adopted.left),
    ):
        for line in lines:
            typer.echo(f"{words}: {line}")
    if adopted.kept:
        typer.echo(f"kept: {CONDA_FILE} is {adopted.kept} now")
    if changed:
        typer.echo(f"written: {', '.join(changed)}")
    _note_own_files(project)


def _note_own_files(project: Path) -> None:
    """Say what is left as it is, and how it would be made."""
    from helpers.project.environment.generated import CONDA_FILE
    from helpers.project.environment.sync import own_files

    for name in own_files(project):
        cure = f"helpers env adopt {name}" if name == CONDA_FILE else "give it another name, then: helpers env sync"
        note(f"{name} was not made by this command, and is left as it is; to have it made: {cure}")


def _project() -> Path:
    """Return the folder of the project, or else the current one, which must have a ``pyproject.toml``."""
    from helpers.config import find_project, working_directory

    here = working_directory()
    return find_project(here) or here


def add_to(parent: typer.Typer) -> None:
    """Register the commands."""
    parent.add_typer(app, name="env", rich_help_panel=PROJECT)
