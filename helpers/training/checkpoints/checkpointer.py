"""Keep a training's state, so that whatever stops the job costs no finished work."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.runtime.current import current_run
from helpers.training.checkpoints.best import judge
from helpers.training.checkpoints.boundaries import Boundaries
from helpers.training.checkpoints.in_flight import SaveInFlight
from helpers.training.checkpoints.leaving import listen_without_our_runner
from helpers.training.checkpoints.loading import load_checkpoint, open_folder, read_newest, restore_own
from helpers.training.checkpoints.metrics import Metrics
from helpers.training.checkpoints.plain_files import load_plain
from helpers.training.checkpoints.rhythm import read_rhythm
from helpers.training.checkpoints.saving import Saver, await_saves
from helpers.training.checkpoints.snapshot import encode_state
from helpers.training.checkpoints.state import finish_loaders, restore
from helpers.training.checkpoints.storage import Position
from helpers.training.checkpoints.turn import Turn
from helpers.training.ranks.peers import close_before_end, meet_peers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from pathlib import Path

_FEWEST_KEPT = 2  # the newest may be found broken


class Checkpointer:
    """Saves the training's state at step boundaries, and goes on from it after a restart.

    In a job it saves to the run folder, and that it was made is what says that the job can be requeued.
    Outside a job it begins a new run under ``runs/local/`` and says so; ``folder=`` goes on with an old one.
    One stops a run: another one may step when its loop is over, not beside it.
    In several processes every rank makes one, inside ``with distributed():``, and calls the same methods in
    the same order.

    Args:
        state: What to keep, by name: objects with ``state_dict()`` and ``load_state_dict()``, tensors,
            random generators, numbers, strings, dataclasses, nested. Objects and tensors are loaded in
            place; the rest is written back into this mapping.
        folder: Where checkpoints go; None for the run's own folder.
        keep: How many of the newest to keep, at least 2, beside the best one and the one resumed from; None
            for all.
        save_every: A duration (``"10min"``, seconds as a float, a timedelta), by the clock of rank 0, or a
            number of steps as an int.

    Raises:
        InvalidRequest: If a value of ``state`` cannot be kept, or there are several processes without a
            process group.
        FolderTaken: If another process writes to ``folder``.
        SaveFailed: (an OSError) If nobody can write to ``folder``.
    """

    def __init__(
        self,
        state: MutableMapping[str, Any],
        *,
        folder: str | Path | None = None,
        keep: int | None = 3,
        save_every: str | float | timedelta = "10min",
    ) -> None:
        if keep is not None and keep < _FEWEST_KEPT:
            hint = "keep=3, or keep=None for all; were the only one found broken, none would be left"
            raise InvalidRequest(f"keep must be at least {_FEWEST_KEPT}, got {keep}.", hint=hint)
        if not isinstance(state, MutableMapping):
            hint = 'Checkpointer({"model": model, "optimizer": optimizer})'
            raise InvalidRequest(
                f"state is a mapping from names to what is kept; got a {type(state).__name__}.", hint=hint
            )
        every_steps, every_s = read_rhythm(save_every)
        self._state = state
        self._step = 0
        self._epoch = 0
        self._restored = False
        self._restores = 0
        listen_without_our_runner()
        await_saves()  # of an earlier Checkpointer on the same folder
        encode_state(state)  # what cannot be kept is refused now, not in ten minutes
        self._peers = meet_peers("checkpointer")
        attempt = current_run().attempt
        self._folder, lease = open_folder(folder, self._peers, attempt)
        self._turn = Turn(self._folder.path)
        self._metrics = Metrics(self._folder.path) if self._peers.is_main else None
        self._saver = Saver(self._folder, self._peers, lease, attempt, keep=keep)
        self._saves = SaveInFlight(self._saver, is_main=self._peers.is_main)
        self._boundaries = Boundaries(
            state, self._saver, self._saves, self._peers, every_steps=every_steps, every_s=every_s
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
            self._boundaries.begin_epoch()
            yield self._epoch
            self._boundaries.end_epoch()
            finish_loaders(self._state)
            self._epoch += 1
            if Turn.holder is not self._turn:
                self._turn.begin()
            if self._epoch < count:
                self._boundaries.pass_epoch(self._step, self._epoch)
            else:  # what is left is less than a requeue takes
                self._saves.save_at_the_end(Position(self._step, self._epoch), self._epoch, self._state)

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
        self._saves.save_at_the_end(Position(self._step), self._epoch, self._state)

    def step(self) -> None:
        """Count a step; begin to save when due; when the scheduler asks to stop, save and leave for the requeue.

        A save that is due is written while training goes on: the state may be changed at once. What became of
        it is told by a later step: where it failed for want of room, training goes on and the next one is
        tried; anything else is raised.

        Raises:
            LeaveForRequeue: When the state is saved and the requeue is asked for; let it pass.
            PeersLost: If somebody must stop and not all ranks answer.
            SaveFailed: (an OSError) If what ``save()`` began could not be written.
            InvalidRequest: If the folder has checkpoints and none was restored, or another Checkpointer has
                stepped since this one did: one for both, ``{"a": …, "b": …}``, can be stopped.
        """
        if Turn.holder is not self._turn:
            self._turn.begin()
        if not self._restored:
            self._refuse_unrestored()
        self._step += 1
        self._boundaries.pass_step(self._step, self._epoch)

    def save(self) -> None:
        """Begin to save now, at the current step; every rank calls this. Right after ``step()`` is the place for it.

        What this step has saved already stays as it is, and the new one is the newest. The state may be changed
        as soon as this returns; ``wait()`` returns when it is durable.

        Raises:
            SaveFailed: (an OSError) If the disk has no room, or what an earlier ``save()`` began could not be
                written; the older checkpoints are untouched. What happens later is raised by the next
                ``step()``, ``save()`` or ``wait()``.
        """
        if not self._restored:
            self._refuse_unrestored()
        self._boundaries.begin_save(Position(self._step), self._epoch, asked=True)

    def wait(self) -> None:
        """Return when all that was saved is durable.

        Raises:
            SaveFailed: (an OSError) If what ``save()`` began could not be written.
        """
        self._saves.settle()

    def restore(self) -> int:
        """Load the newest whole checkpoint into the state; every rank calls this.

        Damaged ones are named on stderr and set aside.

        Returns:
            The step to go on from; 0 if there is no checkpoint.

        Raises:
            NoWholeCheckpoint: If there are only damaged ones: training does not begin anew in silence.
            StateMismatch: If it does not fit the state.
        """
        self._saves.settle()
        found = read_newest(self._folder, self._peers, f"restore/{self._restores}")
        self._restores += 1
        self._restored = True
        if self._metrics is not None:
            self._metrics.supersede(found.manifest.step if found else 0)
        if found is None:
            return 0
        restore(self._state, found.shared)
        self._step, self._epoch = found.manifest.step, found.manifest.epoch
        for remark in restore_own(self._state, found.manifest, found.own, self._peers):
            self._saves.say(remark)
        self._saves.durable = Position.from_name(found.path.name)
        self._saver.spare = {found.path.name}
        self._saves.say(f"resumed at step {self._step} (epoch {self._epoch}) from {found.path}")
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
        self._saves.settle()
        best = self._folder.best()
        facts = judge(metric, lower_is_better, best[1].facts if best else None)
        if facts is not None:
            self._saves.begin_best(Position(self._step), self._epoch, self._state, facts)

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
