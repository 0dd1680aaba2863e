"""Look at the checkpoints of a run from outside, for people who ask what there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.training.checkpoints import manifest as manifests
from helpers.training.checkpoints.manifest import NewerFormat
from helpers.training.checkpoints.storage import CheckpointFolder, Position
from helpers.training.checkpoints.tensor_file import Broken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TEMPORARY = ".tmp-"
_OURS = ("step-", "best-step-", "broken-", "removed-")


@dataclass(frozen=True, kw_only=True)
class Saved:
    """One checkpoint, or what is left of one.

    Args:
        name: Of its folder.
        step: Steps done; None where that is not known.
        epoch: The epoch to go on with, from 0.
        ranks: Processes that saved it.
        size: Bytes of its files.
        time: When it was saved, in UTC.
        damage: What is wrong; empty where nothing was seen.
        unreadable: Why this version of the library cannot read it; empty where it can.
        verified: Whether every byte was compared with its checksum.
    """

    name: str
    step: int | None = None
    epoch: int | None = None
    ranks: int | None = None
    size: int
    time: str | None = None
    damage: str = ""
    unreadable: str = ""
    verified: bool = False


def list_saved(folder: Path, *, verify: bool = False) -> list[Saved]:
    """Return what bears the name of a checkpoint, the oldest first, then the best one and what was set aside.

    Args:
        folder: Of checkpoints.
        verify: Whether to read every byte.
    """
    names = [path.name for path in folder.iterdir() if path.is_dir() and path.name.startswith(_OURS)]
    kinds = {prefix: number for number, prefix in enumerate(_OURS)}
    order = sorted(names, key=lambda name: (next(n for p, n in kinds.items() if name.startswith(p)), name))
    return [_look(folder / name, verify=verify) for name in order]


def choose_spare(folder: Path, *, keep: int, damaged: bool) -> list[Saved]:
    """Return what may go: whole checkpoints but the ``keep`` newest, and what is damaged if that is wanted.

    What is being written is nobody's to remove but the writer's; the next Checkpointer clears up after one that died.
    """
    saved = list_saved(folder)
    whole = [one for one in saved if Position.from_name(one.name) and not (one.damage or one.unreadable)]
    spare = whole[:-keep]
    return spare + [one for one in saved if one.damage and damaged and _TEMPORARY not in one.name]


def remove_saved(folder: Path, spare: Sequence[Saved]) -> None:
    """Remove checkpoints: each loses its name before it loses its files."""
    for one in spare:
        CheckpointFolder(folder).remove(one.name)


def _look(path: Path, *, verify: bool) -> Saved:
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    if path.name.startswith("removed-"):
        return Saved(name=path.name, size=size, damage="half removed")
    if _TEMPORARY in path.name:
        return Saved(name=path.name, size=size, damage="being written, or left half done")
    try:
        manifest = manifests.check_whole(path) if verify else manifests.read_manifest(path)
        manifests.check_lengths(path, manifest)
    except Broken as error:
        return Saved(name=path.name, size=size, damage=error.message)
    except NewerFormat as error:
        return Saved(name=path.name, size=size, unreadable=error.message)
    aside = "set aside as damaged" if path.name.startswith("broken-") else ""
    return Saved(
        name=path.name,
        step=manifest.step,
        epoch=manifest.epoch,
        ranks=manifest.world_size,
        size=size,
        time=str(manifest.facts.get("time", "")).removesuffix("+00:00") or None,
        damage=aside,
        verified=verify,
    )
