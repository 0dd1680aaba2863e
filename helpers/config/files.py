"""Read the files of settings: each once, and again when it has changed."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.config import schema
from helpers.config.toml_lines import line_of, lines_of_keys
from helpers.errors import InvalidRequest

SITE_FILE = Path("/etc/slurm-torch-helpers.toml")


@dataclass(frozen=True)
class FileSettings:
    """What one file, or one table of it, says.

    Args:
        values: Value and line by key: ``partition``, ``slurm.constraint``, ``storage.runs``.
        profiles: The same by profile.
        clusters: What holds on one cluster alone, by Slurm's ClusterName in lower case, as Slurm itself has it.
        extends: The file of the lab that is named, and the line.
    """

    values: dict[str, tuple[Any, int]] = field(default_factory=dict)
    profiles: dict[str, dict[str, tuple[Any, int]]] = field(default_factory=dict)
    clusters: dict[str, FileSettings] = field(default_factory=dict)
    extends: tuple[str, int] | None = None


def user_file() -> Path:
    """Return the user's own file, in ``$XDG_CONFIG_HOME`` or ``~/.config``."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if Path(base).is_absolute() else Path("~/.config").expanduser()
    return folder / "slurm-torch-helpers" / "config.toml"


def project_table(file: Path) -> dict[str, Any] | None:
    """Return ``[tool.helpers]`` of a ``pyproject.toml``; None where there is none."""
    loaded = _load(file)
    table = loaded.document.get("tool", {}).get("helpers") if loaded else None
    return table if isinstance(table, dict) else None


def settings_of(file: Path) -> FileSettings | None:
    """Return what a file says, checked; None where there is no such file.

    Raises:
        InvalidRequest: With file and line: for what is no TOML, an unknown key, or a value of the wrong kind.
    """
    loaded = _load(file)
    if loaded is None:
        return None
    if loaded.settings is None:
        loaded.settings = _read_file(loaded)
    return loaded.settings


@dataclass
class _Loaded:
    """A file as it was when it had this signature."""

    file: Path
    signature: tuple[int, int, int]
    document: dict[str, Any]
    text: str
    settings: FileSettings | None = None


_loaded: dict[Path, _Loaded] = {}


def _load(file: Path) -> _Loaded | None:
    try:
        status = file.stat()
    except OSError:
        return None
    signature = (status.st_mtime_ns, status.st_size, status.st_ino)
    known = _loaded.get(file)
    if known is None or known.signature != signature:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidRequest(f"{file} cannot be read: {error.strerror}.", hint=f"ls -l {file}") from error
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{file} is no valid TOML: it is not UTF-8 ({error.reason}).") from error
        known = _loaded[file] = _Loaded(file, signature, _parse(file, text), text)
    return known


def _parse(file: Path, text: str) -> dict[str, Any]:
    if file.name == "pyproject.toml" and "helpers" not in text:
        return {}
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{file} is no valid TOML: {error}.") from error


def _read_file(loaded: _Loaded) -> FileSettings:
    prefix = ("tool", "helpers") if loaded.file.name == "pyproject.toml" else ()
    table: Any = loaded.document
    for name in prefix:
        table = table.get(name, {})
    tables = (*schema.TABLES, schema.ENVIRONMENT) if prefix else schema.TABLES
    return _Reader(loaded.file, lines_of_keys(loaded.text)).read(table, prefix, tables)


@dataclass(frozen=True)
class _Reader:
    """Checks one file's tables, and knows the lines of their keys."""

    file: Path
    lines: dict[tuple[str, ...], int]

    def read(self, table: dict[str, Any], path: tuple[str, ...], tables: tuple[str, ...]) -> FileSettings:
        for name in table:
            if name not in tables:
                raise self._unknown(name, path, tables if name not in schema.DEFAULTS else ())
        extends = table.get("extends")
        if extends is not None and not isinstance(extends, str):
            raise self._wrong((*path, "extends"), f"extends is the path of a file; got {extends!r}")
        self._refuse_twins(table.get("clusters"), path)
        profiles, clusters = (self._table(table, path, name) for name in ("profiles", "clusters"))
        storage = self._values(self._table(table, path, "storage"), (*path, "storage"), schema.STORAGE, "storage.")
        defaults = self._values(self._table(table, path, "defaults"), (*path, "defaults"), schema.DEFAULTS)
        return FileSettings(
            values={**defaults, **storage},
            profiles={
                name: self._values(
                    self._table(profiles, (*path, "profiles"), name), (*path, "profiles", name), schema.PROFILE
                )
                for name in profiles
            },
            clusters={
                name.lower(): self.read(
                    self._table(clusters, (*path, "clusters"), name),
                    (*path, "clusters", name),
                    schema.CLUSTER_TABLES,
                )
                for name in clusters
            },
            extends=None if extends is None else (extends, line_of(self.lines, (*path, "extends"))),
        )

    def _refuse_twins(self, clusters: Any, path: tuple[str, ...]) -> None:
        """Refuse two tables for one cluster: Slurm's ClusterName has no case."""
        names: dict[str, str] = {}
        for name in clusters if isinstance(clusters, dict) else ():
            if name.lower() in names:
                twin = names[name.lower()]
                raise self._wrong((*path, "clusters", name), f"clusters {twin} and {name} are one, as Slurm sees it")
            names[name.lower()] = name

    def _values(
        self, table: dict[str, Any], path: tuple[str, ...], known: dict[str, schema.Kind], prefix: str = ""
    ) -> dict[str, tuple[Any, int]]:
        values = {}
        for name, value in table.items():
            if name == "slurm" and not prefix:
                values.update(self._options(self._table(table, path, "slurm"), (*path, "slurm")))
                continue
            if name not in known:
                raise self._unknown(name, path, (*known, *(() if prefix else ("slurm",))))
            line = line_of(self.lines, (*path, name))
            schema.check_value(prefix + name, value, f"{self.file}:{line}")
            values[prefix + name] = (value, line)
        return values

    def _options(self, table: dict[str, Any], path: tuple[str, ...]) -> dict[str, tuple[Any, int]]:
        values = {}
        for name, value in table.items():
            option, line = schema.option_name(name), line_of(self.lines, (*path, name))
            if option is None:
                raise self._wrong((*path, name), f"an sbatch option has a long name; got {name!r}")
            schema.check_value(f"slurm.{option}", value, f"{self.file}:{line}")
            values[f"slurm.{option}"] = (value, line)
        return values

    def _table(self, table: dict[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
        value = table.get(name, {})
        if not isinstance(value, dict):
            raise self._wrong((*path, name), f"{name} is a table; got {value!r}")
        return value

    def _wrong(self, path: tuple[str, ...], words: str) -> InvalidRequest:
        return InvalidRequest(f"{self.file}:{line_of(self.lines, path)}: {words}.", hint="helpers config explain")

    def _unknown(self, name: str, path: tuple[str, ...], known: tuple[str, ...]) -> InvalidRequest:
        where = f"{self.file}:{line_of(self.lines, (*path, name))}"
        inside = f" in [{'.'.join(_quoted(part) for part in path)}]" if path else ""
        if not known:
            table = ".".join(_quoted(part) for part in (*path, "defaults"))
            return InvalidRequest(f"{where}: {name} stands outside a table.", hint=f"put it into [{table}]")
        hint = schema.nearest(name, known, otherwise="there are")
        if name in schema.PROFILE and name not in known:
            hint = "how large a job is, a profile or the call says: [profiles.<name>]"
        return InvalidRequest(f"{where}: there is no setting {name!r}{inside}.", hint=hint)


def _quoted(part: str) -> str:
    return part if part.replace("-", "").replace("_", "").isalnum() and part.isascii() else json.dumps(part)
