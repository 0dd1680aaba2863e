"""Feed batches in an order that depends on seed and epoch alone, and know how many were consumed.

An epoch is one order of all samples. Step ``k`` of ``W`` ranks takes the next ``W x batch_size`` of them, of
which each rank takes its own piece. So what has been consumed is always a prefix of the order, told by one
number that is the same in all ranks: a run goes on in the midst of an epoch with another number of ranks,
and no sample is lost or seen twice.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from helpers.errors import HelpersError, InvalidRequest
from helpers.runtime.current import current_run
from helpers.training.checkpoints.random_state import derive_seed
from helpers.training.data.order import Share, order_of
from helpers.training.data.workers import SeededDataset, TensorBatches, WorkerStart, begin
from helpers.training.devices.device import uses_cuda
from helpers.training.devices.threads import suggest_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.utils.data import Dataset

Ahead = Generator[tuple[Any, Callable[[], None]], None, None]
"""Batches that were read, each with what to call when the training loop has got it."""

_OURS = {"batch_sampler", "sampler", "generator"}  # what decides on order and position is ours


class LoaderMisused(HelpersError, RuntimeError):
    """The loader was iterated over in a way that its position cannot follow."""


def make_loader(
    dataset: Dataset[Any],
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int = 0,
    num_workers: int | Literal["auto"] = 0,
    drop_last: bool = False,
    **kwargs: Any,
) -> Loader:
    """Return a loader that shares the samples among the ranks and can go on in the midst of an epoch.

    Put it into the state of the ``Checkpointer``. Every rank gets the same number of batches: with
    ``drop_last`` the samples left over at the end of an epoch (fewer than ``batch_size`` times the ranks)
    are dropped; without, the last batch is smaller, and up to ``ranks - 1`` samples from the start of the
    order are seen a second time to make it equal in all ranks.

    Args:
        dataset: With ``__len__`` and ``__getitem__``. A ``TensorDataset`` is indexed by whole batches.
        batch_size: Samples per batch *and process*.
        shuffle: Whether each epoch has an order of its own.
        seed: What the order, and the random numbers of the workers, depend on.
        num_workers: Processes that read ahead, per process; ``"auto"`` for what :func:`suggest_workers` returns.
            They draw random numbers that depend on seed, epoch, rank and batch alone, so that a resumed run sees
            the same augmentation. Where CUDA is in use they are not forked, and the data set must be picklable.
        drop_last: See above.
        kwargs: Given to ``torch.utils.data.DataLoader``, such as ``collate_fn`` or ``persistent_workers``.
            ``pin_memory`` is True where the job has a CUDA device, unless it is given.

    Raises:
        InvalidRequest: If the data set is a stream or has no length, or an argument is not ours to pass on.
    """
    _check_indexed(dataset, batch_size)
    if batch_size < 1:
        raise InvalidRequest(f"batch_size must be at least 1, got {batch_size}.")
    if refused := _OURS & kwargs.keys():
        hint = "shuffle=, seed="
        if refused != {"generator"}:
            hint += "; or draw before: make_loader(Subset(dataset, drawn), …) (docs: Load data, Samplers)"
        raise InvalidRequest(f"make_loader decides on {', '.join(sorted(refused))} itself.", hint=hint)
    return Loader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        num_workers=suggest_workers() if num_workers == "auto" else num_workers,
        drop_last=drop_last,
        kwargs={"pin_memory": uses_cuda(), **kwargs},
    )


def _check_indexed(dataset: Dataset[Any], batch_size: int) -> None:
    """Refuse what has no numbered samples: the position in an epoch is a number."""
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset):
        raise InvalidRequest(
            f"make_loader goes on in the midst of an epoch by the numbers of its samples, and {name} is a stream "
            "(IterableDataset), which has none.",
            hint="read the stream anew in each attempt, and pass over what was trained on (docs: Load data, Streams):\n"
            f"    batches = DataLoader(dataset, batch_size={batch_size}, generator=torch.Generator())\n"
            "    batches = itertools.islice(batches, checkpoint.restore(), None)\n"
            "    for _ in checkpoint.steps(n):\n"
            "        batch = next(batches)",
        )
    if not hasattr(dataset, "__len__"):
        raise InvalidRequest(
            f"make_loader needs the number of samples, and {name} has no __len__.",
            hint=f"in class {name}:  def __len__(self): return len(self.files)   # or what it counts",
        )


class Loader:
    """An iterable over batches, one epoch per ``for`` loop; see :func:`make_loader`."""

    batches_given = 0
    """By all loaders of this process together: tells which of them has given one since a moment."""

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        num_workers: int,
        drop_last: bool,
        kwargs: dict[str, Any],
    ) -> None:
        grouped = dist.is_initialized()
        run = current_run()
        if not grouped and run.world_size > 1:
            raise InvalidRequest(
                f"This is process {run.rank} of {run.world_size}, and they have no process group.",
                hint="Make the loader under `with distributed():`.",
            )
        self._share = Share(
            samples=len(dataset),  # type: ignore[arg-type]
            batch_size=batch_size,
            rank=dist.get_rank() if grouped else 0,
            world_size=dist.get_world_size() if grouped else 1,
            drop_last=drop_last,
        )
        self._shuffle = shuffle
        self._seed = seed
        self._epoch = 0
        self._cursor = 0  # samples that all ranks together have consumed in this epoch
        self._resumed = False  # whether the position was loaded and is to be gone on from
        self._turn = 0  # tells iterations apart
        self._given_at = 0  # what ``batches_given`` was with this one's newest batch
        self._loader = self._make(dataset, num_workers, kwargs)

    def __len__(self) -> int:
        """Batches that each rank gets in a whole epoch."""
        return self._share.batches_left(0)

    def __iter__(self) -> Iterator[Any]:
        return _consume_each(self.read_ahead())

    def read_ahead(self) -> Ahead:
        """Begin an iteration whose batches are counted as consumed when the caller says so, in their order.

        Returns:
            A generator over batches, each with what to call when the training loop has got it.
        """
        if not self._resumed and self._cursor > 0:
            self._begin_next_epoch()
        self._resumed = False
        self._turn += 1
        return self._read(self._turn)

    @property
    def reads_here(self) -> bool:
        """Whether the data set is read in this process, and not in workers."""
        return self._loader.num_workers == 0

    @property
    def epoch(self) -> int:
        """The epoch of the iteration that runs or comes next, from 0."""
        return self._epoch

    def ended_since(self, batches_given: int) -> bool:
        """Say whether this loader has given the last batch of an epoch since ``batches_given`` was that number."""
        return self._given_at > batches_given and self._share.batches_left(self._cursor) == 0

    def finish_epoch(self) -> None:
        """Move to the next epoch if this one has been begun; the ``Checkpointer`` calls this at its end."""
        if self._cursor > 0 and not self._resumed:
            self._begin_next_epoch()

    def state_dict(self) -> dict[str, int]:
        """Return the position: the epoch and how many of its samples all ranks have *consumed*."""
        return {
            "epoch": self._epoch,
            "consumed": self._cursor,
            "samples": self._share.samples,
            "seed": self._seed,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a position; the seed that was saved is taken, so that the order is the same.

        Raises:
            ValueError: If the data set has another length now.
        """
        if state["samples"] != self._share.samples:
            raise ValueError(f"the data set had {state['samples']} samples and has {self._share.samples} now")
        if state["seed"] != self._seed:
            message = f"helpers: the loader goes on with the saved seed {state['seed']}, not with {self._seed}."
            print(message, file=sys.stderr, flush=True)
        self._seed = state["seed"]
        self._epoch, self._cursor = state["epoch"], state["consumed"]
        self._resumed = True
        self._turn += 1  # an iteration that runs already is over

    def _begin_next_epoch(self) -> None:
        self._epoch += 1
        self._cursor = 0

    def _read(self, turn: int) -> Ahead:
        if self._share.batches_left(self._cursor) == 0:
            return
        # of our own: torch's loader would draw from the global generator, once an epoch and once a resume
        self._generator.manual_seed(derive_seed(self._seed, self._epoch, self._share.rank))
        batches = begin(self._loader)
        consumed = functools.partial(self._consume, turn)
        for batch in batches:
            yield batch, consumed

    def _consume(self, turn: int) -> None:
        if turn != self._turn:
            raise LoaderMisused(
                "A loader was iterated over anew while an earlier iteration still ran.",
                hint="Make two loaders: each keeps one position.",
            )
        self._cursor = min(self._cursor + self._share.stride, self._share.samples)
        Loader.batches_given += 1
        self._given_at = Loader.batches_given

    def _make(self, dataset: Dataset[Any], num_workers: int, kwargs: dict[str, Any]) -> DataLoader[Any]:
        self._generator = torch.Generator()
        options = dict(kwargs)
        if num_workers > 0:
            options["worker_init_fn"] = WorkerStart(kwargs.get("worker_init_fn"))
        batches: Any
        if type(dataset) is TensorDataset and "collate_fn" not in kwargs:
            batches = TensorBatches(dataset)
            options["collate_fn"] = _as_it_is
        else:
            batches = SeededDataset(dataset)
        return DataLoader(
            batches,
            batch_sampler=_BatchSampler(self),
            num_workers=num_workers,
            generator=self._generator,
            **options,
        )

    def _plan(self) -> Iterator[list[Any]]:
        """Yield the indexes of each batch that is left, preceded by the seed for its random numbers."""
        epoch, cursor = self._epoch, self._cursor
        order = order_of(self._share.samples, self._seed, epoch, shuffle=self._shuffle)
        for start, indexes in self._share.batches(order, cursor):
            yield [derive_seed(self._seed, epoch, self._share.rank, start), indexes]


def _consume_each(ahead: Ahead) -> Iterator[Any]:
    for batch, consumed in ahead:
        consumed()
        yield batch


class _BatchSampler:
    """Asks its loader anew at the start of each iteration."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[list[Any]]:
        return self._loader._plan()  # noqa: SLF001 -- two halves of one thing

    def __len__(self) -> int:
        return len(self._loader)


def _as_it_is(batch: Any) -> Any:
    return batch
