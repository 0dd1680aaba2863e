"""End a cluster from nothing but its folder.

The same code serves a ``with`` block, ``down`` in another process, and what a process that was killed left
behind. The data is thrown away, so everything is simply killed; what counts is that nothing stays.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import cgroups, processes
from tests.cluster.failure import ClusterError
from tests.cluster.layout import Layout

RECORD = "cluster.json"
KILL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Record:
    """What another process must know of a cluster, kept in its folder.

    Args:
        layout: Its names, ports and paths.
        owner: The identity of the process that must end it; empty for one that runs in the background.
        proctrack: The process tracking that is in force.
        accounting: Whether ``sacct`` answers.
    """

    layout: Layout
    owner: str
    proctrack: str
    accounting: bool

    @property
    def abandoned(self) -> bool:
        """Whether the process that should have ended it is gone."""
        return bool(self.owner) and processes.alive(self.owner) is None


def write_record(record: Record) -> None:
    """Write the record before anything is started, so that nothing can be started without one."""
    values = {
        "instance": record.layout.instance,
        "ports": record.layout.ports,
        "owner": record.owner,
        "proctrack": record.proctrack,
        "accounting": record.accounting,
    }
    (record.layout.folder / RECORD).write_text(json.dumps(values))


def read_record(folder: Path) -> Record | None:
    """Return the record of the cluster in this folder; ``None`` if there is none that can be trusted.

    Only our own folder is believed: what it says is killed as root, and anybody may write to ``/tmp``.
    """
    try:
        if folder.stat().st_uid != os.geteuid():
            return None
        values: dict[str, Any] = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return None
    layout = Layout(folder=folder, instance=values["instance"], ports=tuple(values["ports"]))
    return Record(
        layout=layout,
        owner=values["owner"],
        proctrack=values["proctrack"],
        accounting=values["accounting"],
    )


def processes_of(layout: Layout) -> set[int]:
    """Return every process of a cluster: daemons, step daemons and jobs, also those in a container."""
    named = processes.recorded_in(layout.pids) | cgroups.members_of(layout.nodes)
    return named | processes.seeing(layout.hosts)


def tear_down(layout: Layout) -> None:
    """End every process of a cluster, then remove its cgroups and its folder.

    Raises:
        ClusterError: If a process does not die; its folder then stays, so that ``down`` can be tried again.
    """
    cgroups.thaw(layout.nodes)
    if left := processes.end_all(lambda: processes_of(layout), within_s=KILL_S):
        raise ClusterError(f"These processes of {layout.folder} do not die: {sorted(left)}")
    cgroups.remove(layout.nodes)
    shutil.rmtree(layout.folder)


def tear_down_abandoned(parent: Path, pattern: str) -> list[Path]:
    """Tear down the clusters whose process was killed before it could; return their folders."""
    records = [read_record(folder) for folder in sorted(parent.glob(pattern))]
    found = [record.layout for record in records if record is not None and record.abandoned]
    for layout in found:
        tear_down(layout)
    return [layout.folder for layout in found]
