"""``helpers config``: show the settings that hold here, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.cli.answer import print_json
from helpers.cli.commands import Commands
from helpers.cli.report import EXIT_CODES

if TYPE_CHECKING:
    from helpers.config import Entry, Settings

HELP = "Show the settings that hold in this folder, and where each comes from."
EXPLAIN = """Show each setting with its value and its origin: a file and its line, a variable, or the library.

With KEY, such as partition, slurm.constraint or storage.runs: what every layer says of it, the one that holds first.
"""
WHERE = "Show the files of settings that were looked for, low to high: what a later one says counts more."

_BY_SLURM = {"partition", "account", "qos", "time", "cpus", "mem"}
_UNSET_SLURM = "not set; Slurm's default, or what fits the job best"

app = typer.Typer(cls=Commands, help=HELP, epilog=EXIT_CODES, no_args_is_help=True, rich_markup_mode=None)


@app.command(help=EXPLAIN)
def explain(
    *,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="One setting; unset, all.")] = None,
    profile: Annotated[str | None, typer.Option(help="As submit(profile=…) has it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object, for programs.")] = False,
) -> None:
    """Show values and origins; see EXPLAIN."""
    from helpers.submission.resources.settings import complete_settings

    settings = complete_settings({} if profile is None else {"profile": profile}).settings
    keys = _keys(settings) if key is None else [_known_key(key, settings)]
    if as_json:
        print_json({name: _as_json(settings, name) for name in keys})
    elif key is None:
        _print_rows([_row(name, settings.entry(name)) for name in keys])
        _print_footer(settings)
    else:
        layers = reversed(settings.entries.get(keys[0], ()))
        _print_rows([_row(keys[0], entry) for entry in layers] or [_row(keys[0], None)])


@app.command(help=WHERE)
def where(*, as_json: Annotated[bool, typer.Option("--json", help="A JSON list, for programs.")] = False) -> None:
    """Show the files; see WHERE."""
    from helpers.config import read_settings, working_directory

    files = read_settings(working_directory()).looked_at
    if as_json:
        print_json([{"layer": f.layer, "path": f.path, "found": f.found, "named": f.named} for f in files])
        return
    rows = [(f.layer, "found" if f.found else "-", str(f.path), f"by {f.named}" if f.named else "") for f in files]
    _print_rows([*rows, ("environment", "", "HELPERS_…", ""), ("call", "", "submit(…), helpers submit", "")])


app.command("path", hidden=True, help=WHERE)(where)


def _keys(settings: Settings) -> list[str]:
    from helpers.config.schema import DEFAULTS, STORAGE

    options = sorted(key for key in settings.entries if key.startswith("slurm."))
    sizes = [key for key in ("gpus", "nodes", "processes", "total_time") if key in settings.entries]
    return [*sizes, *DEFAULTS, *options, *(f"storage.{name}" for name in STORAGE)]


def _known_key(key: str, settings: Settings) -> str:
    from helpers.config.schema import PROFILE, nearest, option_name
    from helpers.errors import InvalidRequest

    if key.startswith("slurm.") and (option := option_name(key.removeprefix("slurm."))) is not None:
        return f"slurm.{option}"
    known = [*_keys(settings), *PROFILE]
    if key not in known:
        raise InvalidRequest(f"There is no setting {key!r}.", hint=nearest(key, known, otherwise="there are"))
    return key


def _row(key: str, entry: Entry | None) -> tuple[str, ...]:
    if entry is None:
        return key, "-", _UNSET_SLURM if key in _BY_SLURM else "not set"
    return key, _shown(entry.value), str(entry.origin)


def _shown(value: Any) -> str:
    if value is None:
        return "not asked for"
    return "; ".join(value) if isinstance(value, list) else str(value)


def _as_json(settings: Settings, key: str) -> dict[str, Any]:
    entry = settings.entry(key)
    layers = [
        {"value": e.value, "layer": e.origin.layer, "place": e.origin.place, "table": e.origin.table}
        for e in settings.entries.get(key, ())
    ]
    return {"value": None if entry is None else entry.value, "layers": layers}


def _print_footer(settings: Settings) -> None:
    if settings.profiles:
        chosen = f" ({settings.profile} is asked for)" if settings.profile else ""
        typer.echo(f"profiles: {', '.join(settings.profiles)}{chosen}")
    if settings.cluster:
        typer.echo(f"cluster: {settings.cluster}")


def _print_rows(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        typer.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def add_to(parent: typer.Typer) -> None:
    """Register the commands."""
    parent.add_typer(app, name="config")
