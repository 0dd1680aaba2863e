"""Read checkpoints: all of one for a run that goes on, or one entry for evaluation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from helpers.errors import InvalidRequest
from helpers.runtime.current import current_run
from helpers.runtime.run_folder import new_run_id
from helpers.training import manifest as manifests
from helpers.training.decoding import Decoder, references
from helpers.training.encoding import ObjectState
from helpers.training.lease import Lease
from helpers.training.random_state import restore_random_state, seed_afresh
from helpers.training.saving import ARRIVAL_S, STATE_FILE, TENSOR_FILE, rank_file
from helpers.training.state import find_generators, restore
from helpers.training.storage import CheckpointFolder
from helpers.training.tensor_file import check_file, read_file, read_tensors

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from helpers.training.manifest import Manifest
    from helpers.training.peers import Peers


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
    """
    lease: list[Lease] = []

    def prepare() -> str:
        path = choose_folder(folder)
        path.mkdir(parents=True, exist_ok=True)
        lease.append(Lease(path, attempt))
        CheckpointFolder(path).clean(attempt)
        return str(path)

    path = peers.main_decides("folder", prepare, timeout_s=ARRIVAL_S)
    return CheckpointFolder(Path(path)), lease[0] if lease else None


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
        KeyError: If there is no entry ``name``.
    """
    tree = json.loads(read_file(folder / STATE_FILE, manifest.files[STATE_FILE]))
    decoder = Decoder({})
    entries = {decoder.decode(key): value for key, value in tree["v"]}
    chosen = tree if name is None else entries[name]
    tensors = read_tensors(folder / TENSOR_FILE, manifest.files[TENSOR_FILE], wanted=references(chosen))
    return Decoder(tensors).decode(chosen)


def read_own(folder: Path, manifest: Manifest, rank: int) -> dict[str, Any] | None:
    """Return what ``rank`` alone had; None if the saved run had fewer ranks."""
    record = manifest.files.get(rank_file(rank))
    if record is None:
        return None
    own: dict[str, Any] = Decoder({}).decode(json.loads(read_file(folder / rank_file(rank), record)))
    return own


def read_whole(folder: Path, manifest: Manifest) -> tuple[Manifest, Any, dict[str, Any] | None]:
    """Read what rank 0 needs, and look at every other byte as well.

    Raises:
        Broken: If a file is not what was written.
    """
    shared, own = read_shared(folder, manifest), read_own(folder, manifest, 0)
    for name, record in manifest.files.items():
        if name not in {STATE_FILE, TENSOR_FILE, rank_file(0)}:
            check_file(folder / name, record)
    return manifest, shared, own


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
        try:
            return read_shared(path, manifest, name)
        except KeyError:
            raise InvalidRequest(f"{path} has no {name!r}.", hint="Checkpointer.load(folder) for all") from None

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
    if type(value) is dict:
        return {key: _without_wrappers(item) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_without_wrappers(item) for item in value)
    return value
