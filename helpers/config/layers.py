"""Put the layers of settings on top of each other, and remember where each value comes from.

From low to high: library, site, lab, user, project; in each file the tables of this machine's cluster count more
than the others. Above them the profile that is asked for, by the same order; then the environment; then the call.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.config import schema
from helpers.config.cluster_name import cluster_name
from helpers.config.files import SITE_FILE, FileSettings, settings_of, user_file
from helpers.config.folders import fill_in, find_project
from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_LIKELY = 0.85  # one letter less is a slip; another word may be somebody else's


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a value comes from.

    Args:
        layer: ``library``, ``site``, ``lab``, ``user``, ``project`` or ``environment``.
        place: File and line, or the variable; empty for the library.
        table: The profile or the cluster in whose table it stands, such as ``"profile a100"``.
    """

    layer: str
    place: str = ""
    table: str = ""

    def __str__(self) -> str:
        return f"{self.place or self.layer}{f' ({self.table})' if self.table else ''}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A value of one layer.

    Args:
        key: ``partition``, ``slurm.constraint``, ``storage.runs``.
        value: As the layer says it; None for a Slurm option that it removes.
        origin: Where it says so.
    """

    key: str
    value: Any
    origin: Origin


@dataclass(frozen=True, kw_only=True)
class Looked:
    """A place where settings may be.

    Args:
        layer: Which it is.
        path: The file.
        found: Whether it is there.
        named: What names it, where a line of a setting does.
    """

    layer: str
    path: Path
    found: bool
    named: str = ""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all layers below the call say.

    Args:
        entries: For each key what the layers say of it, low to high: the last one holds.
        looked_at: The files that were looked for, low to high.
        cluster: Slurm's ClusterName, where it was needed.
        profile: The profile that was asked for.
        profiles: The names of all profiles here.
    """

    entries: Mapping[str, tuple[Entry, ...]]
    looked_at: tuple[Looked, ...]
    cluster: str | None = None
    profile: str | None = None
    profiles: tuple[str, ...] = field(default_factory=tuple)

    def entry(self, key: str) -> Entry | None:
        """Return the value that holds, with its origin; None where no layer has one."""
        found = self.entries.get(key)
        return found[-1] if found else None

    def get(self, key: str) -> Any:
        """Return the value that holds; None where no layer has one."""
        entry = self.entry(key)
        return None if entry is None else entry.value


def read_settings(start: Path, *, profile: str | None = None) -> Settings:
    """Read what holds in a folder.

    Args:
        start: The folder that is worked in.
        profile: The profile that the call asks for; None: ``$HELPERS_PROFILE``, if any.

    Raises:
        InvalidRequest: For an unknown key, a wrong type (with file and line), or a profile that is nowhere.
    """
    files = _Files.find(start)
    layers = list(files.tables())
    wanted = profile or os.environ.get(schema.PROFILE_VARIABLE) or None
    profiles = tuple(dict.fromkeys(name for _, table, _ in layers for name in table.profiles))
    if wanted is not None and wanted not in profiles:
        by = f" ({schema.PROFILE_VARIABLE})" if profile is None else ""
        raise InvalidRequest(
            f"There is no profile {wanted!r}{by} here.", hint=schema.nearest(wanted, profiles, otherwise="there are")
        )
    entries: dict[str, list[Entry]] = {}
    for entry in _all_entries(layers, wanted):
        entries.setdefault(entry.key, []).append(entry)
    return Settings(
        entries={key: tuple(found) for key, found in entries.items()},
        looked_at=tuple(files.looked_at),
        cluster=files.cluster,
        profile=wanted,
        profiles=profiles,
    )


_Layer = tuple["Looked", FileSettings, str]  # the file, one of its tables, and the cluster whose table it is


def _all_entries(layers: list[_Layer], profile: str | None) -> Iterator[Entry]:
    """Yield what each layer says, low to high."""
    for key, value in schema.LIBRARY.items():
        yield Entry(key=key, value=value, origin=Origin(layer="library"))
    for looked, table, cluster in layers:
        yield from _entries(looked, table.values, f"cluster {cluster}" if cluster else "")
    for looked, table, cluster in layers:
        if profile in table.profiles:
            where = f"profile {profile}" + (f", cluster {cluster}" if cluster else "")
            yield from _entries(looked, table.profiles[profile], where)
    yield from _from_environment()


def _entries(looked: Looked, values: dict[str, tuple[Any, int]], table: str) -> Iterator[Entry]:
    for key, (value, line) in values.items():
        origin = Origin(layer=looked.layer, place=f"{looked.path}:{line}", table=table)
        yield Entry(key=key, value=_without_removed(key, value), origin=origin)


def _without_removed(key: str, value: Any) -> Any:
    return None if key.startswith("slurm.") and schema.removes(value) else value


def _from_environment() -> Iterator[Entry]:
    known = schema.variables()
    for name in [name for name in os.environ if name.startswith(schema.PREFIX)]:
        text = os.environ[name]
        if not text or name in schema.NO_SETTINGS:
            continue
        if name.startswith(schema.OPTION_PREFIX):
            key = f"slurm.{name.removeprefix(schema.OPTION_PREFIX).lower().replace('_', '-')}"
        elif name in known:
            key = known[name]
        else:
            _refuse_slip(name, known)
            continue
        reader = schema.kind_of(key).from_text
        value = reader(text) if reader is not None else text
        schema.check_value(key, value, name)
        yield Entry(key=key, value=_without_removed(key, value), origin=Origin(layer="environment", place=name))


def _refuse_slip(name: str, known: Mapping[str, str]) -> None:
    """Refuse what can only be a slip of the pen; other variables may be somebody else's."""
    near = difflib.get_close_matches(name, [*known, schema.PROFILE_VARIABLE], n=1, cutoff=_LIKELY)
    if near and near != [name]:
        raise InvalidRequest(f"The variable {name} is no setting.", hint=f"did you mean {near[0]}?")


@dataclass
class _Files:
    """The files that hold here, with the lab's where a lower layer names one."""

    looked_at: list[Looked] = field(default_factory=list)
    found: list[tuple[Looked, FileSettings]] = field(default_factory=list)
    cluster: str | None = None

    @classmethod
    def find(cls, start: Path) -> _Files:
        files = cls()
        project = find_project(start)
        pyproject = (project or start) / "pyproject.toml"
        own = [
            Looked(layer="site", path=SITE_FILE, found=SITE_FILE.exists()),
            Looked(layer="user", path=user_file(), found=user_file().exists()),
            Looked(layer="project", path=pyproject, found=project is not None),
        ]
        read = [(looked, settings_of(looked.path) if looked.found else None) for looked in own]
        if any(table is not None and table.clusters for _, table in read):
            files.cluster = cluster_name()
        labs = [lab for looked, table in read if table for lab in files.labs(looked, table)]
        files.looked_at = [own[0], *(lab for lab, _ in labs), *own[1:]]
        tables = {looked.layer: table for looked, table in read if table is not None}
        files.found = [(own[0], tables["site"])] if "site" in tables else []
        files.found += labs
        files.found += [(looked, tables[looked.layer]) for looked in own[1:] if looked.layer in tables]
        return files

    def labs(
        self, by: Looked, table: FileSettings, seen: tuple[Path, ...] = ()
    ) -> Iterator[tuple[Looked, FileSettings]]:
        """Yield the files that a file names by ``extends``, the lowest first."""
        for part in (table, table.clusters.get(self.cluster or "")):
            if part is None or part.extends is None:
                continue
            text, line = part.extends
            where = f"{by.path}:{line}"
            path = by.path.parent / fill_in(text, f"{where}: extends")
            if path in {*seen, by.path}:
                raise InvalidRequest(f"{where}: extends leads back to {path}.", hint="take one of the lines out")
            named = settings_of(path)
            if named is None:
                raise InvalidRequest(f"{where}: extends names {path}, and there is no such file.", hint=f"ls -l {path}")
            if named.clusters and self.cluster is None:
                self.cluster = cluster_name()
            looked = Looked(layer="lab", path=path, found=True, named=where)
            yield from self.labs(looked, named, (*seen, by.path))
            yield looked, named

    def tables(self) -> Iterator[_Layer]:
        """Yield each file's tables: the general ones, then those of this machine's cluster."""
        for looked, table in self.found:
            yield looked, table, ""
            of_cluster = table.clusters.get(self.cluster or "")
            if of_cluster is not None:
                yield looked, of_cluster, self.cluster or ""
