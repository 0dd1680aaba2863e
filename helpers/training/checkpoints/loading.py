"""Read checkpoints: all of one for a run that goes on, or one entry for evaluation."""

from __future__ import annotations

import errno
import json
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from helpers.errors import InvalidRequest
from helpers.runtime.current import current_run
from helpers.runtime.run.folder import new_run_id
from helpers.training.checkpoints import manifest as manifests
from helpers.training.checkpoints.decoding import Decoder, references
from helpers.training.checkpoints.encoding import ObjectState
from helpers.training.checkpoints.lease import Lease
from helpers.training.checkpoints.random_state import restore_random_state, seed_afresh
from helpers.training.checkpoints.saving import ARRIVAL_S, STATE_FILE, TENSOR_FILE, SaveFailed, rank_file
from helpers.training.checkpoints.state import find_generators, restore
from helpers.training.checkpoints.storage import CheckpointFolder
from helpers.training.checkpoints.tensor_file import check_file, read_file, read_tensors

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from helpers.training.checkpoints.manifest import Manifest
    from helpers.training.ranks.peers import Peers


def choose_folder(folder: str | Path | None) -> Path:
    """Return the folder to save to: the one given, the run's own, or that of a new run, which is said."""
    if folder is not None:
        return Path(folder).absolute()
    files = current_run().files
    if files is not None:
        return files.checkpoints
    path = Path("runs", "local", new_run_id(), "checkpoints").absolute()
    print(f"helpers: a new run; to go on with it: Checkpointer(..., folder={str(path)!r})", file=sys.stderr, flush=True)
    return path


def open_folder(folder: str | Path | None, peers: Peers, attempt: int) -> tuple[CheckpointFolder, Lease | None]:
    """Make the folder that all ranks save to; rank 0 takes its lease and removes what was left half done.

    Raises:
        FolderTaken: In rank 0, if another process writes there.
        SaveFailed: In rank 0, if nobody can write there.
    """
    lease: list[Lease] = []

    def prepare() -> str:
        path = choose_folder(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            lease.append(_take_lease(path, attempt))
        except OSError as error:
            raise SaveFailed(
                f"No checkpoint can be written to {path}: {error.strerror or error}.",
                hint="a folder= where this process may write; to read only: Checkpointer.load(folder)",
            ) from error
        CheckpointFolder(path).clean(attempt)
        return str(path)

    path = peers.main_decides("folder", prepare, timeout_s=ARRIVAL_S)
    return CheckpointFolder(Path(path)), lease[0] if lease else None


def _take_lease(path: Path, attempt: int) -> Lease:
    """Take the lease; where there is no room for it, what an attempt that was killed left half written may go first."""
    try:
        return Lease(path, attempt)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        CheckpointFolder(path).clean(attempt)
        return Lease(path, attempt)


def find_checkpoint_folder(source: object) -> Path:
    """Return the folder of checkpoints of a job, a run folder, or itself.

    Raises:
        InvalidRequest: If it does not exist.
    """
    path = Path(str(getattr(source, "folder", source)))
    candidate: Path = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    if not candidate.is_dir():
        raise InvalidRequest(f"There is no folder {candidate}.", hint="Give a job, a run folder or a checkpoint.")
    return candidate


def read_shared(folder: Path, manifest: Manifest, name: str | None = None) -> Any:
    """Return the state that all ranks share, or one entry of it, on the CPU.

    Raises:
        Broken: If a file is not what was written.
        InvalidRequest: If there is no entry ``name``.
    """
    tree = json.loads(read_file(folder / STATE_FILE, manifest.files[STATE_FILE]))
    decoder = Decoder({})
    entries = {decoder.decode(key): value for key, value in tree["v"]}
    if name is not None and name not in entries:
        raise InvalidRequest(f"{folder} has no {name!r}.", hint="Checkpointer.load(folder) for all")
    chosen = tree if name is None else entries[name]
    tensors = read_tensors(folder / TENSOR_FILE, manifest.files[TENSOR_FILE], wanted=references(chosen))
    return Decoder(tensors).decode(chosen)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The checkpoint that a run goes on from, as one rank has read it.

    Args:
        path: Its folder.
        manifest: Its list of files.
        shared: The state that all ranks share.
        own: What this rank alone had; None if the saved run had fewer ranks.
    """

    path: Path
    manifest: Manifest
    shared: Any
    own: dict[str, Any] | None


def read_newest(folder: CheckpointFolder, peers: Peers, key: str) -> Found | None:
    """Have rank 0 find the newest whole checkpoint, and read it in every rank; None if there never was one.

    Args:
        folder: Where to look.
        peers: The ranks.
        key: Of this search, the same in all ranks.

    Raises:
        NoWholeCheckpoint: In all ranks, if there are only damaged ones.
    """
    read: list[Found] = []

    def choose() -> str:
        found = folder.newest_whole(read_whole, set_aside=True)
        if found is None:
            return ""
        read.append(found[1])
        return found[0].name

    name = peers.main_decides(key, choose, timeout_s=ARRIVAL_S)
    if not name or read:
        return read[0] if read else None
    path = folder.path / name
    manifest = manifests.read_manifest(path)
    return Found(
        path=path,
        manifest=manifest,
        shared=read_shared(path, manifest),
        own=read_own(path, manifest, peers.rank),
    )


def read_own(folder: Path, manifest: Manifest, rank: int) -> dict[str, Any] | None:
    """Return what ``rank`` alone had; None if the saved run had fewer ranks."""
    record = manifest.files.get(rank_file(rank))
    if record is None:
        return None
    own: dict[str, Any] = Decoder({}).decode(json.loads(read_file(folder / rank_file(rank), record)))
    return own


def read_whole(folder: Path, manifest: Manifest) -> Found:
    """Read what rank 0 needs, and look at every other byte as well.

    Raises:
        Broken: If a file is not what was written.
    """
    shared, own = read_shared(folder, manifest), read_own(folder, manifest, 0)
    for name, record in manifest.files.items():
        if name not in {STATE_FILE, TENSOR_FILE, rank_file(0)}:
            check_file(folder / name, record)
    return Found(path=folder, manifest=manifest, shared=shared, own=own)


def restore_own(
    state: MutableMapping[str, Any], manifest: Manifest, own: dict[str, Any] | None, peers: Peers
) -> list[str]:
    """Restore what this rank alone had, its random generators; return what should be said about it."""
    if own is None:
        seed_afresh(peers.rank, manifest.step, manifest.files[rank_file(0)].xxh3_128)
    else:
        generators = find_generators(state)
        for path in generators.keys() & own["generators"].keys():
            restore(generators[path], own["generators"][path], path)
        restore_random_state(own["random"])
    threads = manifest.facts.get("threads"), torch.get_num_threads()
    if manifest.world_size != peers.world_size:
        cause = f"saved by {manifest.world_size} ranks, resumed by {peers.world_size}"
        return [f"{cause}: no sample is lost, but random numbers and rounding differ from one go"]
    if threads[0] != threads[1]:
        return [f"saved with {threads[0]} threads, resumed with {threads[1]}: rounding may differ from one go"]
    return []


def load_checkpoint(source: object, name: str | None, *, best: bool) -> Any:
    """Return what a run has saved; see ``Checkpointer.load``."""
    folder = find_checkpoint_folder(source)

    def read(path: Path, manifest: manifests.Manifest) -> Any:
        return read_shared(path, manifest, name)

    found: tuple[Path, Any] | None
    if (folder / manifests.NAME).exists():
        found = folder, read(folder, manifests.read_manifest(folder))
    elif best:
        kept = CheckpointFolder(folder).best()
        found = None if kept is None else (kept[0], read(*kept))
    else:
        found = CheckpointFolder(folder).newest_whole(read, set_aside=False)
    if found is None:
        raise InvalidRequest(f"There is no {'best ' if best else ''}checkpoint in {folder}.")
    return _without_wrappers(found[1])


def _without_wrappers(value: Any) -> Any:
    if isinstance(value, ObjectState):
        return value.state
    if type(value) in {dict, OrderedDict}:
        for key, item in value.items():
            value[key] = _without_wrappers(item)
        return value
    if type(value) in {list, tuple}:
        return type(value)(_without_wrappers(item) for item in value)
    return value
