"""Keep a training's state, so that whatever stops the job costs no finished work.

Longer than most modules here because half of it is the public contract's docstrings.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from helpers.errors import InvalidRequest
from helpers.runtime import unfinished
from helpers.runtime.current import current_run
from helpers.runtime.stop import LeaveForRequeue, begin_to_leave, listen_for_stop
from helpers.training import manifest as manifests
from helpers.training.best import judge
from helpers.training.durations import read_rhythm
from helpers.training.encoding import Encoder
from helpers.training.loading import (
    load_checkpoint,
    open_folder,
    read_own,
    read_shared,
    read_whole,
    restore_own,
)
from helpers.training.metrics import Metrics
from helpers.training.peers import close_before_end, meet_peers
from helpers.training.plain_files import load_plain
from helpers.training.saving import ARRIVAL_S, SaveFailed, Saver, await_saves
from helpers.training.state import at_last_step, capture, finish_loaders, restore
from helpers.training.stop_agreement import Action, LoneAgreement, SharedAgreement
from helpers.training.storage import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from datetime import timedelta
    from pathlib import Path


@dataclass(frozen=True)
class _Save:
    """A save in flight.

    Args:
        position: Where in the training; None for a copy of the best state.
        asked: Whether the user's code asked for it, and so wants to know of its failure.
    """

    position: Position | None
    asked: bool


class Checkpointer:
    """Saves the training's state at step boundaries, and goes on from it after a restart.

    In a job it saves to the run folder, and that it was made is what says that the job can be requeued.
    Outside a job it begins a new run under ``runs/local/`` and says so; ``folder=`` goes on with an old one.
    In several processes every rank makes one, inside ``with distributed():``, and calls the same methods in
    the same order.

    Args:
        state: What to keep, by name: objects with ``state_dict()`` and ``load_state_dict()``, tensors,
            random generators, numbers, strings, dataclasses, nested. Objects and tensors are loaded in
            place; the rest is written back into this mapping.
        folder: Where checkpoints go; None for the run's own folder.
        keep: How many of the newest to keep, beside the best one and the one resumed from; None for all.
        save_every: A duration (``"10min"``, seconds as a float, a timedelta), by the clock of rank 0, or a
            number of steps as an int.

    Raises:
        InvalidRequest: If a value of ``state`` cannot be kept, or there are several processes without a
            process group.
        FolderTaken: If another process writes to ``folder``.
    """

    def __init__(
        self,
        state: MutableMapping[str, Any],
        *,
        folder: str | Path | None = None,
        keep: int | None = 3,
        save_every: str | float | timedelta = "10min",
    ) -> None:
        if keep is not None and keep < 1:
            raise InvalidRequest(f"keep must be at least 1, got {keep}.", hint="keep=3, or keep=None for all")
        self._every_steps, every_s = read_rhythm(save_every)
        self._state = state
        self._step = 0
        self._epoch = 0
        self._restored = False
        self._durable: Position | None = None  # the newest checkpoint that this run can go on from
        self._in_flight: _Save | None = None
        self._complained = False
        self._restores = 0
        self._in_epoch = False
        self._deferred = Action.NOTHING
        _listen_without_our_runner()
        await_saves()  # of an earlier Checkpointer on the same folder
        Encoder().encode(capture(state))  # what cannot be kept is refused now, not in ten minutes
        self._peers = meet_peers("checkpointer")
        attempt = current_run().attempt
        self._folder, lease = open_folder(folder, self._peers, attempt)
        self._metrics = Metrics(self._folder.path) if self._peers.is_main else None
        self._saver = Saver(self._folder, self._peers, lease, attempt, keep=keep)
        self._agreement: LoneAgreement | SharedAgreement = (
            LoneAgreement(every_s) if self._peers.world_size == 1 else SharedAgreement(self._peers, every_s)
        )
        if self._peers.world_size > 1:
            close_before_end(self._saver.await_end)

    @property
    def folder(self) -> Path:
        """Where the checkpoints are."""
        return self._folder.path

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the numbers of the epochs that are still to do, from 0 to ``count - 1``.

        The newest whole checkpoint is restored first. The position *within* an epoch is the loader's to
        know: it must be part of the state (see :func:`make_loader`). A stop that came during evaluation is
        met here, at the end of the epoch. After the last epoch the state is saved, and a stop is not heeded.
        """
        self._restore_once()
        while self._epoch < count:
            self._in_epoch = True
            yield self._epoch
            self._in_epoch = False
            finish_loaders(self._state)
            self._epoch += 1
            position = Position(self._step, self._epoch)
            if self._epoch < count:
                self._act(max(self._agreement.reach_boundary(), self._deferred), position)
            else:  # what is left is less than a requeue takes
                self._save_at_the_end(position)

    def steps(self, count: int) -> Iterator[int]:
        """Yield the numbers of the steps that are still to do, from 0 to ``count - 1``.

        The newest whole checkpoint is restored first. Each turn of the loop counts as a step; ``step()``
        may be called in it, once, and then that is the step's boundary. After the last step the state is saved.
        """
        self._restore_once()
        while self._step < count:
            before = self._step
            yield before
            if self._step == before:
                self.step()
        self._save_at_the_end(Position(self._step))

    def step(self) -> None:
        """Count a step; begin to save when due; when the scheduler asks to stop, save and leave for the requeue.

        A save that is due is written while training goes on: the state may be changed at once. What became of
        it is told by a later step: where it failed for want of room, training goes on and the next one is
        tried; anything else is raised.

        Raises:
            LeaveForRequeue: When the state is saved and the requeue is asked for; let it pass.
            PeersLost: If somebody must stop and not all ranks answer.
            SaveFailed: (an OSError) If what ``save()`` began could not be written.
            InvalidRequest: If the folder has checkpoints and none was restored.
        """
        if not self._restored:
            self._refuse_unrestored()
        self._step += 1
        action = self._agreement.reach_boundary()
        if self._every_steps is not None and self._step % self._every_steps == 0:
            action = max(action, Action.SAVE)
        if action is not Action.NOTHING or self._deferred is not Action.NOTHING:
            self._act(max(action, self._deferred), Position(self._step))
        elif self._saver.ended:
            self._settle()

    def save(self) -> None:
        """Begin to save now, at the current step; every rank calls this. Right after ``step()`` is the place for it.

        The state may be changed as soon as this returns; ``wait()`` returns when it is durable.

        Raises:
            SaveFailed: (an OSError) If the disk has no room, or what an earlier ``save()`` began could not be
                written; the older checkpoints are untouched. What happens later is raised by the next
                ``step()``, ``save()`` or ``wait()``.
        """
        if not self._restored:
            self._refuse_unrestored()
        self._begin(Position(self._step), asked=True)

    def wait(self) -> None:
        """Return when all that was saved is durable.

        Raises:
            SaveFailed: (an OSError) If what ``save()`` began could not be written.
        """
        self._settle()

    def restore(self) -> int:
        """Load the newest whole checkpoint into the state; every rank calls this.

        Damaged ones are named on stderr and set aside.

        Returns:
            The step to go on from; 0 if there is no checkpoint.

        Raises:
            NoWholeCheckpoint: If there are only damaged ones: training does not begin anew in silence.
            StateMismatch: If it does not fit the state.
        """
        self._settle()
        read: list[Any] = []

        def choose() -> str:
            found = self._folder.newest_whole(read_whole, set_aside=True)
            if found is None:
                return ""
            read.append(found[1])
            return found[0].name

        key = f"restore/{self._restores}"
        self._restores += 1
        name = self._peers.main_decides(key, choose, timeout_s=ARRIVAL_S)
        self._restored = True
        if self._metrics is not None:
            self._metrics.supersede(_step_of(name))
        if not name:
            return 0
        path = self.folder / name
        if not read:
            manifest = manifests.read_manifest(path)
            read.append((manifest, read_shared(path, manifest), read_own(path, manifest, self._peers.rank)))
        manifest, shared, own = read[0]
        restore(self._state, shared)
        self._step, self._epoch = manifest.step, manifest.epoch
        for remark in restore_own(self._state, manifest, own, self._peers):
            self._say(remark)
        self._durable = Position.from_name(name)
        self._saver.spare = {name}
        self._say(f"resumed at step {self._step} (epoch {self._epoch}) from {path}")
        return self._step

    def latest(self) -> Path | None:
        """Return the folder of the newest checkpoint that looks whole; None if there is none."""
        self._saver.await_end()
        whole = self._folder.whole()
        return self.folder / whole[-1].name if whole else None

    def keep_best(self, *, lower_is_better: bool | None = None, **metric: float) -> None:
        """Keep a copy of the state if ``metric`` is better than ever before in this run.

        Rank 0's value decides and rank 0 writes, so it may be called by all ranks or by rank 0 alone. The
        copy is for ``Checkpointer.load(job, "model", best=True)``; a run never goes on from it.

        Args:
            lower_is_better: None to tell from the name: lower for one that has loss, error, perplexity, mse,
                mae, nll, wer, cer or fid in it, else higher.
            metric: One name and value, such as ``accuracy=0.93``. A NaN is never the best.

        Raises:
            InvalidRequest: If there is not exactly one metric, or it is another one than before.
        """
        if not self._peers.is_main:
            return
        self._settle()
        best = self._folder.best()
        facts = judge(metric, lower_is_better, best[1].facts if best else None)
        if facts is None:
            return
        self._saver.start_best(Position(self._step), self._epoch, self._state, facts)
        self._in_flight = _Save(None, asked=False)
        unfinished.add(id(self), self.wait)

    def log(self, **metrics: Any) -> None:
        """Append metrics of the current step to ``metrics.jsonl`` in the run folder.

        Every rank may call it; rank 0 writes, with ``step``, ``attempt`` and ``time``. When a run goes on from
        an older step, the lines after it are marked ``"superseded": true``.

        Args:
            metrics: Numbers, tensors of one element, or texts, such as ``loss=loss``.

        Raises:
            InvalidRequest: If a value is none of these, or a name is one that is written by itself.
        """
        if self._metrics is not None:
            self._metrics.log(self._step, metrics)

    @staticmethod
    def load_plain(path: str | Path, *, run_code: bool = False) -> Any:
        """Return what plain ``torch.save`` has written, on the CPU, with a warning: such a file has no checksum.

        Args:
            path: The file.
            run_code: Whether the file may run code while it is read, as pickles do; only for a file whose maker
                you trust.

        Raises:
            InvalidRequest: If it cannot be read, or not without running code.
        """
        return load_plain(path, run_code=run_code)

    @staticmethod
    def load(source: object, name: str | None = None, *, best: bool = False) -> Any:
        """Return what a run has saved, on the CPU, for evaluation or fine-tuning.

        Nothing is changed in the folder and no code is run from it.

        Args:
            source: A job, a run folder, a folder of checkpoints, or one checkpoint.
            name: The entry of the state; None for the whole mapping.
            best: Whether to take the one that ``keep_best`` kept instead of the newest.

        Returns:
            For an object what its ``state_dict()`` gave, for ``model.load_state_dict(…)``; else the value.

        Raises:
            InvalidRequest: If there is no checkpoint, or no such entry in it.
            NoWholeCheckpoint: If all are damaged.
        """
        await_saves()
        return load_checkpoint(source, name, best=best)

    def _restore_once(self) -> None:
        if not self._restored:
            self.restore()

    def _refuse_unrestored(self) -> None:
        if self._peers.is_main and self._folder.positions():
            raise InvalidRequest(
                f"{self.folder} has checkpoints, and none was restored: they would be overtaken by a new start.",
                hint="for epoch in checkpoint.epochs(n), or checkpoint.restore() before the first step",
            )
        self._restored = True

    def _act(self, action: Action, position: Position) -> None:
        """Do what was agreed, or put it off from an epoch's last step to the epoch's end.

        A run that went on from the last step would find its loop over the loader empty, and whatever the code
        after that loop expects from it missing. A stop is saved there all the same, in case the scheduler
        does not wait for the evaluation.
        """
        self._deferred = Action.NOTHING
        if self._in_epoch and action is not Action.NOTHING and at_last_step(self._state):
            self._deferred = action
            if action is Action.LEAVE:
                self._save_at_the_end(position)
        elif action is Action.LEAVE:
            self._leave(position)
        elif action is Action.SAVE:
            self._begin(position, asked=False)

    def _leave(self, position: Position) -> None:
        """Save, ask for the requeue when that is durable in every rank, and leave."""
        begin_to_leave()
        failure = self._save(position)
        if failure is not None:
            if self._durable is None:
                raise failure  # there is nothing to go on from: a requeue would begin anew in silence
            self._say(f"{failure}\nhelpers: the requeued job will go on from step {self._durable.step} instead")
        step = self._durable.step if self._durable else position.step

        def ask() -> str:
            current_run().ask_for_requeue(step=step)
            return ""

        self._peers.main_decides("leave", ask, timeout_s=ARRIVAL_S)
        files = current_run().files
        is_cancel = files is not None and files.cancel_mark.exists()
        goal = "the job is cancelled" if is_cancel else "leaving for the requeue"
        self._say(f"asked to stop: step {step} is saved, {goal}")
        raise LeaveForRequeue(f"step {step} is saved")

    def _save(self, position: Position) -> SaveFailed | None:
        """Save and wait; return why it could not be written."""
        try:
            self._settle()
        except SaveFailed as error:  # what comes now is newer
            self._complain(error)
        try:
            self._begin(position, asked=True)
            self._settle()
        except SaveFailed as error:
            return error
        return None

    def _save_at_the_end(self, position: Position) -> None:
        failure = self._save(position)
        if failure is not None:
            self._complain(failure)

    def _begin(self, position: Position, *, asked: bool) -> None:
        """Begin a save, once the one before has ended: all ranks know then alike what is durable."""
        self._settle()
        if position == self._durable:
            return
        try:
            self._saver.start(position, self._epoch, self._state)
            self._in_flight = _Save(position, asked=asked)
            unfinished.add(id(self), self.wait)
        except SaveFailed as error:
            if asked:
                raise
            self._complain(error)
        finally:
            self._agreement.saved()

    def _settle(self) -> None:
        """Wait for the save in flight, if there is one, and take note of what became of it."""
        save, self._in_flight = self._in_flight, None
        if save is None:
            return
        unfinished.discard(id(self))
        try:
            self._saver.finish()
        except SaveFailed as error:
            if save.asked:
                raise
            self._complain(error)
            return
        if save.position is not None:
            self._durable = save.position
            if self._complained:
                self._say(f"checkpoints can be written again (step {save.position.step})")
                self._complained = False

    def _complain(self, error: SaveFailed) -> None:
        """Warn once, until a checkpoint can be written again."""
        if not self._complained:
            self._say(f"{error}\nhelpers: training goes on; the older checkpoints are untouched")
        self._complained = True

    def _say(self, message: str) -> None:
        if self._peers.is_main:
            print(f"helpers: {message}", file=sys.stderr, flush=True)


def _listen_without_our_runner() -> None:
    """Heed SIGTERM under a plain srun or torchrun too, unless the user's code does; our runner has seen to it."""
    scheduled = "SLURM_STEP_ID" in os.environ or dist.is_torchelastic_launched()
    unheeded = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if scheduled and unheeded and threading.current_thread() is threading.main_thread():
        listen_for_stop()


def _step_of(name: str) -> int:
    position = Position.from_name(name)
    return 0 if position is None else position.step
