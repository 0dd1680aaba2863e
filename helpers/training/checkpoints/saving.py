"""Save one step of all ranks together: each writes its own file, rank 0 the state they share, then commits."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch

from helpers.errors import HelpersError
from helpers.runtime.current import current_run
from helpers.training.checkpoints.background import Background
from helpers.training.checkpoints.last_moment import LastMoment
from helpers.training.checkpoints.manifest import Manifest
from helpers.training.checkpoints.snapshot import Buffers
from helpers.training.checkpoints.tensor_file import FileRecord, write_file, write_tensors
from helpers.training.ranks.peers import PeersLost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from helpers.training.checkpoints.lease import Lease
    from helpers.training.checkpoints.snapshot import Snapshot
    from helpers.training.checkpoints.storage import CheckpointFolder, Position
    from helpers.training.ranks.peers import Peers

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
    """Writes checkpoints of all ranks, one at a time, in a thread; see each method for who calls it.

    The threads of the ranks meet in the store, so that no rank's training waits for another's.

    Args:
        folder: Where they go.
        peers: The ranks.
        lease: The right to write there; None in all ranks but 0.
        attempt: This start of the job.
        keep: How many of the newest to keep; None for all.
    """

    def __init__(
        self, folder: CheckpointFolder, peers: Peers, lease: Lease | None, attempt: int, *, keep: int | None
    ) -> None:
        self._folder = folder
        self._peers = peers.for_another_thread()
        self._lease = lease
        self._attempt = attempt
        self._keep = keep
        self._numbers = itertools.count()
        self._buffers = Buffers()
        self._background = Background("helpers-save")
        self.last_moment = LastMoment(current_run().end_time)
        """When training must leave for its last save; known in rank 0, which measures each."""
        self.spare: set[str] = set()
        """Names of checkpoints that are never removed."""
        _savers.add(self)

    @property
    def ended(self) -> bool:
        """Whether a save has ended and nobody has asked what became of it."""
        return self._background.ended

    def reserve(self, state: Mapping[str, Any]) -> None:
        """Begin to make the memory that the first snapshot takes."""
        if self._peers.is_main:
            self._buffers.reserve(state)

    def start(self, position: Position, epoch: int, state: Mapping[str, Any]) -> None:
        """Take a snapshot and begin to write it; every rank calls this, and may change the state afterwards.

        The save before must have been finished.

        Raises:
            SaveFailed: In a single process, if the disk has too little room: nothing is begun then.
        """
        key = f"save/{next(self._numbers)}"
        if not self._peers.is_main:
            snapshot = self._buffers.take(state, shared=False)
            self._background.start(lambda: self._save_part(key, snapshot))
            return
        begun = time.monotonic()
        snapshot = self._buffers.take(state, shared=True)
        if self._peers.world_size == 1:
            self._check_room(snapshot)

        def save() -> None:
            self._save_main(key, position, epoch, snapshot)
            self.last_moment.measured(time.monotonic() - begun)

        self._background.start(save)

    def start_best(self, position: Position, epoch: int, state: Mapping[str, Any], facts: dict[str, Any]) -> None:
        """Begin to write the shared state alone, as the best one; only rank 0 calls this."""
        snapshot = self._buffers.take(state, shared=True)
        self._background.start(lambda: self._save_best(position, epoch, snapshot, facts))

    def finish(self) -> None:
        """Return when what was begun is durable; at once if nothing was.

        Raises:
            SaveFailed: In every rank, if one of them could not write (a full disk, for example).
            FolderTaken: In rank 0, if somebody else writes to the folder now.
            PeersLost: If a rank did not come, or rank 0 failed in another way.
        """
        self._background.finish()

    def await_end(self, timeout_s: float | None = None) -> None:
        """Wait for what was begun, and leave it to :meth:`finish` to tell what became of it."""
        self._background.await_end(timeout_s)

    def _save_part(self, key: str, snapshot: Snapshot) -> None:
        name = self._peers.hear(f"{key}/folder", timeout_s=ARRIVAL_S)
        if name:
            self._peers.tell(f"{key}/rank/{self._peers.rank}", self._write_own(self._folder.path / name, snapshot))
        outcome = self._peers.hear(f"{key}/outcome", timeout_s=ARRIVAL_S)
        if outcome.startswith("disk:"):
            raise SaveFailed(outcome.removeprefix("disk:"))
        if outcome:
            raise PeersLost(f"Rank 0 could not save: {outcome}")

    def _save_best(self, position: Position, epoch: int, snapshot: Snapshot, facts: dict[str, Any]) -> None:
        name = f"best-step-{position.step:08d}"
        temporary: Path | None = None
        try:
            self._check_room(snapshot)
            if (self._folder.path / name).exists():  # the same step, measured again
                name += f"-{time.time_ns() & 0xFFFFFF:06x}"
            temporary = self._folder.begin(name, self._attempt)
            files = _write_shared(temporary, snapshot)
            self._check_lease()
            best = self._folder.commit(temporary, name, self._manifest(position, epoch, files, facts))
        except OSError as error:
            failure = _explain(error, self._folder)
            _discard(temporary)
            raise failure from error
        self._folder.keep_one_best(best)

    def _save_main(self, key: str, position: Position, epoch: int, snapshot: Snapshot) -> None:
        temporary: Path | None = None
        outcome = "rank 0 was interrupted"
        try:
            self._check_room(snapshot)
            temporary = self._folder.begin(position.name, self._attempt)
            self._peers.tell(f"{key}/folder", temporary.name)
            self._peers.tell(f"{key}/rank/0", self._write_own(temporary, snapshot))
            files = _write_shared(temporary, snapshot)
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
        with suppress(OSError):
            self._folder.keep_newest(self._keep, spare=self.spare)

    def _check_room(self, snapshot: Snapshot) -> None:
        """Refuse before anything is written; a quota, which this does not see, is met while writing."""
        try:
            free = shutil.disk_usage(self._folder.path).free
        except OSError:
            return
        if snapshot.size > free:
            raise _explain(
                OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({snapshot.size} bytes needed, {free} free)"),
                self._folder,
            )

    def _write_own(self, folder: Path, snapshot: Snapshot) -> str:
        """Write what this rank alone has; return its record or the error, as JSON."""
        deadline = time.monotonic() + _VISIBLE_S
        while True:
            try:
                record = write_file(folder / rank_file(self._peers.rank), [snapshot.own])
            except FileNotFoundError:
                if time.monotonic() < deadline and not self._peers.is_main:
                    time.sleep(0.1)
                    continue
                return json.dumps({"error": f"it does not see {folder}; all nodes must share it"})
            except OSError as error:
                return json.dumps({"error": f"{_in_words(error, folder)} ({error.filename or folder})"})
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


_savers: WeakSet[Saver] = WeakSet()


def await_saves() -> None:
    """Wait for whatever this process still writes, so that what is read next is the newest."""
    for saver in list(_savers):
        saver.await_end()


def _write_shared(folder: Path, snapshot: Snapshot) -> dict[str, FileRecord]:
    return {
        TENSOR_FILE: write_tensors(folder / TENSOR_FILE, snapshot.tensors),
        STATE_FILE: write_file(folder / STATE_FILE, [snapshot.shared]),
    }


def _discard(temporary: Path | None) -> None:
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


def _explain(error: OSError, folder: CheckpointFolder) -> SaveFailed:
    return SaveFailed(
        f"No checkpoint was written to {folder.path}: {_in_words(error, folder.path)}.",
        hint=f"df -h {folder.path}; df -i {folder.path}; quota",
    )


def _in_words(error: OSError, folder: Path) -> str:
    """Return the system's words, and what they hide: a disk can have room for bytes and for not one more file."""
    words = error.strerror or str(error)
    if error.errno != errno.ENOSPC:
        return words
    try:
        disk = os.statvfs(folder)
    except OSError:
        return words
    out_of_inodes = disk.f_files > 0 and disk.f_favail == 0 and disk.f_bavail > 0  # 0 files: it does not count them
    return f"{words} for one more file: its {disk.f_files} inodes are used up" if out_of_inodes else words
