"""Keep the inventory for a while: a cluster's hardware changes by the week, submissions come by the minute."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.runtime.files import write_json
from helpers.submission.inventory.inventory import Inventory, NodeGroup, Partition, read_inventory

LONGEST_AGE_S = 600.0
_FORMAT = 1


@functools.lru_cache(maxsize=8)
def current_inventory(slurm_conf: str | None) -> Inventory:
    """Return what the cluster has: from this process, a file of at most ten minutes, or the controller.

    Args:
        slurm_conf: ``$SLURM_CONF``: another configuration is another cluster.

    Raises:
        ClusterUnreachable: If the controller is asked and does not answer.
    """
    file = _cache_file(slurm_conf)
    kept = _read(file)
    if kept is not None:
        return kept
    inventory = read_inventory()
    _write(file, inventory)
    return inventory


def _cache_file(slurm_conf: str | None) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    conf = Path(slurm_conf or "/etc/slurm/slurm.conf")
    changed = conf.stat().st_mtime_ns if conf.exists() else 0
    key = hashlib.sha256(f"{_FORMAT} {os.uname().nodename} {conf} {changed}".encode()).hexdigest()[:16]
    return base / "slurm-torch-helpers" / f"inventory-{key}.json"


def _read(file: Path) -> Inventory | None:
    try:
        if time.time() - file.stat().st_mtime > LONGEST_AGE_S:
            return None
        return _from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(file: Path, inventory: Inventory) -> None:
    """Keep it, if the home folder allows; a full quota does not keep a job from the queue."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, asdict(inventory), durable=False)
    except OSError:
        return


def _from_json(record: dict[str, Any]) -> Inventory:
    partitions = tuple(
        Partition(
            **{
                **partition,
                "accounts": tuple(partition["accounts"]),
                "groups": tuple(partition["groups"]),
                "nodes": tuple(NodeGroup(**{**g, "features": tuple(g["features"])}) for g in partition["nodes"]),
            }
        )
        for partition in record["partitions"]
    )
    return Inventory(**{**record, "partitions": partitions})
