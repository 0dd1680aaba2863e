"""``helpers template``: a project and the template that it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.commands import Commands
from helpers.cli.panels import PROJECT
from helpers.cli.report import JOB_FAILED, note

HELP = "Compare a project with the template that it came from, and bring in what changed there."
STATUS_HELP = """Show which template the project came from, and which of its files were changed or deleted here.

Needs no network. The exit code is 1 where there is drift. Files that are the user's do not count, nor do those that
both write in, such as pyproject.toml, as long as they are there. --diff shows the lines; it needs the template.
"""
UPDATE_HELP = """Merge what the template has changed since into the project; the user's files are not touched.

Each file is merged three-way, by git merge-file. Where both changed the same lines, both stand in the file between
marks, the file is listed as CONFLICT, and the exit code is 1. A file that was deleted here stays deleted.
"""
ADOPT_HELP = """Bring a project that was not made from the template to its standard.

Adds the checks before a commit, lines for .gitignore, [tool.helpers], this library among the dependencies, a Makefile,
environment.yml, container.def and the stamp, where they are missing. Nothing is overwritten or moved: what the project
has of its own is listed, and left; what is for you to do is said.
"""
EXIT_CODES = """\b
Exit codes:
  0  done; status: no drift
  1  status: there is drift; update: there are conflicts
  2  the request breaks a rule; nothing was changed
"""

app = typer.Typer(cls=Commands, help=HELP, no_args_is_help=True, rich_markup_mode=None)
_Project = Annotated[Path | None, typer.Argument(metavar="[PROJECT]", help="Its folder; unset, the one around here.")]
_To = Annotated[str | None, typer.Option("--to", help="A commit, tag or branch of the template; unset, its newest.")]
_Json = Annotated[bool, typer.Option("--json", help="A JSON object, for programs.")]


@app.command(help=STATUS_HELP, epilog=EXIT_CODES)
def status(
    *,
    project: _Project = None,
    show_diff: Annotated[bool, typer.Option("--diff", help="Show how each file differs from the template's.")] = False,
    as_json: _Json = False,
) -> None:
    """Show drift; see STATUS_HELP."""
    from helpers.project.template.checkout import checkouts
    from helpers.project.template.comparison import diff_with_template
    from helpers.project.template.stamp import drift_of, read_stamp

    root = _root(project)
    stamp = read_stamp(root)
    drift = drift_of(root, stamp)
    diff = ""
    if show_diff:
        with checkouts() as room:
            diff = diff_with_template(root, room)
    if as_json:
        files = {"changed": drift.changed, "deleted": drift.deleted, "shared": drift.shared, "left": stamp.left or ()}
        record = {"template": stamp.template, "commit": stamp.commit, "version": stamp.version, **files}
        record |= {"diff": diff} if show_diff else {}
        print_json(record)
    else:
        typer.echo(f"{stamp.template}  {stamp.name}")
        _print_lines("changed", drift.changed)
        _print_lines("deleted", drift.deleted)
        _print_lines("edited, as it may be", drift.shared)
        _print_lines("left to the project", stamp.left or ())
        if not stamp.hashes:
            note("the stamp has no hashes of files, so drift cannot be seen; helpers template update adds them")
        elif not drift:
            typer.echo(f"no drift in {len(stamp.hashes)} files of the template")
        typer.echo(diff, nl=False)
    if drift:
        raise typer.Exit(JOB_FAILED)


@app.command(help=UPDATE_HELP, epilog=EXIT_CODES)
def update(
    *,
    project: _Project = None,
    to: _To = None,
    base: Annotated[
        str | None, typer.Option("--from", help="The commit that the project came from, where the stamp has none.")
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Even with changes that are not committed.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Merge a newer template; see UPDATE_HELP."""
    from helpers.project.template.checkout import checkouts
    from helpers.project.template.update import as_json as json_of
    from helpers.project.template.update import update as bring_up_to_date

    with checkouts() as room:
        done = bring_up_to_date(_root(project), room, to=to, base=base, allow_dirty=allow_dirty)
    if as_json:
        typer.echo(json_of(done))
    else:
        for change in done.changes:
            typer.echo(f"{change.action:13}  {change.path}")
        typer.echo(f"{done.old.name} -> {done.new.name}" if done.changes else f"up to date with {done.new.name}")
    if done.conflicts:
        note("look for <<<<<<< in the files with conflicts, settle them, run make check and commit")
        raise typer.Exit(JOB_FAILED)


@app.command(help=ADOPT_HELP, epilog=EXIT_CODES)
def adopt(
    *,
    project: Annotated[Path, typer.Argument(metavar="[PROJECT]", help="Its folder; unset, this one.")] = Path(),
    template: Annotated[
        str | None, typer.Option(help="Folder or URL of the template; unset, where this library came from.")
    ] = None,
    to: _To = None,
    as_json: _Json = False,
) -> None:
    """Bring a project to the standard; see ADOPT_HELP."""
    from helpers.project.template.adoption import adopt as bring_in
    from helpers.project.template.checkout import checkouts

    with checkouts() as room:
        done = bring_in(project.absolute(), room, template=template, to=to)
    if as_json:
        files = {"added": done.added, "extended": done.extended, "left": done.left}
        record = {**files, "commit": done.stamp.commit, "next": done.next_steps}
        print_json(record)
        return
    _print_lines("added", done.added)
    _print_lines("extended", done.extended)
    _print_lines("left as it is", done.left)
    typer.echo(f"stamped: {done.stamp.name}")
    _print_lines("next", done.next_steps)


def _print_lines(word: str, lines: tuple[str, ...]) -> None:
    for line in lines:
        typer.echo(f"{word}: {line}")


def _root(project: Path | None) -> Path:
    """Return the folder that is named, or the nearest one upwards with a stamp or with ``[tool.helpers]``."""
    from helpers.config import find_project, working_directory
    from helpers.project.template.stamp import CRUFT, STAMP

    if project is not None:
        return project.absolute()
    here = working_directory()
    stamped = (folder for folder in (here, *here.parents) if (folder / STAMP).exists() or (folder / CRUFT).exists())
    return next(stamped, None) or find_project(here) or here


def add_to(parent: typer.Typer) -> None:
    """Register the commands."""
    parent.add_typer(app, name="template", rich_help_panel=PROJECT)
