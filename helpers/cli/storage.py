"""``helpers storage``: where things are kept, how full that is, and what is deleted there soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from helpers.cli.answer import print_json
from helpers.cli.panels import PROJECT
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.project.storage import Place

HELP = """Show where runs, data, caches and archives go, how full it is there, and what will be deleted soon.

\b
  eval "$(helpers storage --export)"      in a shell on the login node: downloads go where jobs look for them
"""


def storage(
    *,
    export: Annotated[
        bool, typer.Option("--export", help="Print the variables of caches that jobs get, for a shell.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object, for programs.")] = False,
) -> None:
    """Show the folders; see HELP."""
    import shlex
    from dataclasses import asdict

    from helpers.cli.report import note
    from helpers.config import find_project, read_settings, working_directory
    from helpers.project.storage import places, storage_warnings
    from helpers.submission.variables import cache_variables

    here = working_directory()
    project, settings = find_project(here) or here, read_settings(here)
    if export:
        for name, value in cache_variables(here, settings).items():
            typer.echo(f"export {name}=${{{name}:-{shlex.quote(value)}}}")
        return
    found, warnings = places(project, settings), storage_warnings(project, settings)
    if as_json:
        print_json({"folders": [asdict(place) for place in found], "warnings": warnings})
        return
    _print(found)
    for words in warnings:
        note(words)


def _print(found: list[Place]) -> None:
    from helpers.cli.table import print_table
    from helpers.project.storage import size_in_words

    rows = [
        (
            place.name,
            "–" if place.free is None else size_in_words(place.free),
            "–" if place.files_free is None else f"{place.files_free:.0%}",
            "–" if place.used_of_quota is None else f"{place.used_of_quota:.0%}",
            "never" if place.expires_days is None else f"{place.expires_days:g} days",
            "" if place.folder is None else str(place.folder),
            place.origin,
        )
        for place in found
    ]
    print_table(("what", "free", "files free", "of quota", "deleted after", "folder", "said by"), rows)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP, epilog=EXIT_CODES, rich_help_panel=PROJECT)(storage)
