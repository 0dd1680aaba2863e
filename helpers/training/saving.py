"""Save one step of all ranks together: each writes its own file, rank 0 the state they share, then commits."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import torch

from helpers.errors import HelpersError
from helpers.training.encoding import Encoder
from helpers.training.manifest import Manifest
from helpers.training.peers import PeersLost
from helpers.training.random_state import capture_random_state
from helpers.training.state import capture, find_generators
from helpers.training.tensor_file import FileRecord, write_file, write_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from helpers.training.lease import Lease
    from helpers.training.peers import Peers
    from helpers.training.storage import CheckpointFolder, Position

STATE_FILE = "state.json"
TENSOR_FILE = "state.safetensors"
ARRIVAL_S = 1800.0  # a rank may evaluate alone before it comes to save
_VISIBLE_S = 60.0  # a network file system may show a new folder late on another node


class SaveFailed(HelpersError, OSError):
    """A checkpoint could not be written; the older ones are untouched."""


def rank_file(rank: int) -> str:
    """Return the name of the file with what ``rank`` alone has."""
    return f"rank-{rank:05d}.json"


class Saver:
    """Writes checkpoints of all ranks; every method is called by every rank unless it says otherwise.

    Args:
        folder: Where they go.
        peers: The ranks.
        lease: The right to write there; None in all ranks but 0.
        attempt: This start of the job.
    """

    def __init__(self, folder: CheckpointFolder, peers: Peers, lease: Lease | None, attempt: int) -> None:
        self._folder = folder
        self._peers = peers
        self._lease = lease
        self._attempt = attempt
        self._numbers = itertools.count()

    def save(self, position: Position, epoch: int, state: Mapping[str, Any]) -> None:
        """Write a checkpoint, and return when it is durable.

        Raises:
            SaveFailed: In every rank, if one of them could not write (a full disk, for example).
            FolderTaken: In rank 0, if somebody else writes to the folder now.
            PeersLost: If a rank does not come, or rank 0 failed in another way.
        """
        key = f"save/{next(self._numbers)}"
        if self._peers.is_main:
            self._save_main(key, position, epoch, state)
            return
        name = self._peers.hear(f"{key}/folder", timeout_s=ARRIVAL_S)
        if name:
            self._peers.tell(f"{key}/rank/{self._peers.rank}", self._write_own(self._folder.path / name, state))
        outcome = self._peers.hear(f"{key}/outcome", timeout_s=ARRIVAL_S)
        if outcome.startswith("disk:"):
            raise SaveFailed(outcome.removeprefix("disk:"))
        if outcome:
            raise PeersLost(f"Rank 0 could not save: {outcome}")

    def save_best(self, position: Position, epoch: int, state: Mapping[str, Any], facts: dict[str, Any]) -> Path:
        """Write the shared state alone, as the best one; only rank 0 calls this.

        Raises:
            SaveFailed: If it cannot be written.
            FolderTaken: If somebody else writes to the folder now.
        """
        name = f"best-step-{position.step:08d}"
        temporary: Path | None = None
        try:
            if (self._folder.path / name).exists():  # the same step, measured again
                name += f"-{time.time_ns() & 0xFFFFFF:06x}"
            temporary = self._folder.begin(name, self._attempt)
            files = _write_shared(temporary, state)
            self._check_lease()
            best = self._folder.commit(temporary, name, self._manifest(position, epoch, files, facts))
        except OSError as error:
            _discard(temporary)
            raise _explain(error, self._folder) from error
        self._folder.keep_one_best(best)
        return best

    def _save_main(self, key: str, position: Position, epoch: int, state: Mapping[str, Any]) -> None:
        temporary: Path | None = None
        outcome = "rank 0 was interrupted"
        try:
            temporary = self._folder.begin(position.name, self._attempt)
            self._peers.tell(f"{key}/folder", temporary.name)
            self._peers.tell(f"{key}/rank/0", self._write_own(temporary, state))
            files = _write_shared(temporary, state)
            files |= self._gather(key)
            self._check_lease()
            self._folder.commit(temporary, position.name, self._manifest(position, epoch, files, {}))
            outcome = ""
        except OSError as error:
            failure = error if isinstance(error, SaveFailed) else _explain(error, self._folder)
            outcome = f"disk:{failure.message}"
            raise failure from error
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
            raise
        finally:
            if outcome:
                _discard(temporary)
            if temporary is None:
                self._peers.tell(f"{key}/folder", "")
            self._peers.tell(f"{key}/outcome", outcome)

    def _write_own(self, folder: Path, state: Mapping[str, Any]) -> str:
        """Write what this rank alone has; return its record or the error, as JSON."""
        generators = {path: capture(generator) for path, generator in find_generators(state).items()}
        own = {"random": capture_random_state(), "generators": generators}
        data = json.dumps(Encoder(inline=True).encode(own, "random state")).encode()
        deadline = time.monotonic() + _VISIBLE_S
        while True:
            try:
                record = write_file(folder / rank_file(self._peers.rank), [data])
            except FileNotFoundError:
                if time.monotonic() < deadline and not self._peers.is_main:
                    time.sleep(0.1)
                    continue
                return json.dumps({"error": f"it does not see {folder}; all nodes must share it"})
            except OSError as error:
                return json.dumps({"error": f"{error.strerror} ({error.filename or folder})"})
            return json.dumps(asdict(record))

    def _gather(self, key: str) -> dict[str, FileRecord]:
        files: dict[str, FileRecord] = {}
        for rank, answer in enumerate(self._peers.hear_all(f"{key}/rank", timeout_s=ARRIVAL_S)):
            record = json.loads(answer)
            if "error" in record:
                raise SaveFailed(f"Rank {rank} could not write its part: {record['error']}.")
            files[rank_file(rank)] = FileRecord(**record)
        return files

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def _manifest(
        self, position: Position, epoch: int, files: dict[str, FileRecord], facts: dict[str, Any]
    ) -> Manifest:
        return Manifest(
            step=position.step,
            epoch=epoch,
            world_size=self._peers.world_size,
            attempt=self._attempt,
            files=files,
            facts={
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                **facts,
            },
        )


def _write_shared(folder: Path, state: Mapping[str, Any]) -> dict[str, FileRecord]:
    encoder = Encoder()
    captured = capture(state)
    pairs = [[encoder.encode(key), encoder.encode(value, f"state.{key}")] for key, value in captured.items()]
    text = json.dumps({"~": "dict", "v": pairs}, allow_nan=False)
    return {
        TENSOR_FILE: write_tensors(folder / TENSOR_FILE, encoder.tensors),
        STATE_FILE: write_file(folder / STATE_FILE, [text.encode()]),
    }


def _discard(temporary: Path | None) -> None:
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


def _explain(error: OSError, folder: CheckpointFolder) -> SaveFailed:
    return SaveFailed(
        f"No checkpoint was written to {folder.path}: {error.strerror or error}.",
        hint=f"df -h {folder.path}; df -i {folder.path}; quota",
    )
