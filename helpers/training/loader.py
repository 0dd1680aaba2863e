"""Feed batches in an order that depends on seed and epoch alone, and know how many were consumed.

An epoch is one order of all samples. Step ``k`` of ``W`` ranks takes the next ``W x batch_size`` of them, of
which each rank takes its own piece. So what has been consumed is always a prefix of the order, told by one
number that is the same in all ranks: a run goes on in the midst of an epoch with another number of ranks,
and no sample is lost or seen twice.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from helpers.errors import HelpersError, InvalidRequest
from helpers.runtime.current import current_run
from helpers.training.loader_workers import SeededDataset, TensorBatches, WorkerStart, quiet_start
from helpers.training.random_state import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.utils.data import Dataset

_OURS = {"batch_sampler", "sampler", "generator"}  # what decides on order and position is ours


class LoaderMisused(HelpersError, RuntimeError):
    """The loader was iterated over in a way that its position cannot follow."""


def make_loader(
    dataset: Dataset[Any],
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int = 0,
    num_workers: int = 0,
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
        num_workers: Processes that read ahead, per process. They draw random numbers that depend on seed,
            epoch, rank and batch alone, so that a resumed run sees the same augmentation.
        drop_last: See above.
        kwargs: Given to ``torch.utils.data.DataLoader``, such as ``collate_fn`` or ``pin_memory``.

    Raises:
        InvalidRequest: If the data set has no length, or an argument is not ours to pass on.
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InvalidRequest(
            f"{type(dataset).__name__} has no length and no indexes, so nobody could go on in the midst of it.",
            hint="Give the data set __len__ and __getitem__, or keep its position in the state yourself.",
        )
    if batch_size < 1:
        raise InvalidRequest(f"batch_size must be at least 1, got {batch_size}.")
    if refused := _OURS & kwargs.keys():
        raise InvalidRequest(f"make_loader decides on {', '.join(sorted(refused))} itself.", hint="shuffle=, seed=")
    return Loader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=seed,
        num_workers=num_workers,
        drop_last=drop_last,
        kwargs=kwargs,
    )


@dataclass(frozen=True, kw_only=True)
class Share:
    """Which samples of an epoch's order fall to which rank.

    Args:
        samples: In the data set.
        batch_size: Per rank.
        rank: Of this process.
        world_size: Ranks in all.
        drop_last: Whether what is left over at the end is dropped.
    """

    samples: int
    batch_size: int
    rank: int
    world_size: int
    drop_last: bool

    @property
    def stride(self) -> int:
        """Samples that all ranks take together in one step."""
        return self.batch_size * self.world_size

    def batches_left(self, cursor: int) -> int:
        """Return how many batches each rank gets from ``cursor`` to the end of the epoch."""
        left = self.samples - cursor
        return left // self.stride if self.drop_last else -(-left // self.stride)

    def batch(self, order: torch.Tensor, cursor: int) -> torch.Tensor:
        """Return this rank's indexes of the step that begins at ``cursor``.

        Args:
            order: (samples,) all indexes in the epoch's order.
            cursor: Samples consumed by all ranks before this step.

        Returns:
            (batch,) indexes; at the end of the epoch fewer than ``batch_size``, equally many in all ranks.
        """
        together = order[cursor : cursor + self.stride]
        if len(together) == self.stride:
            return together[self.rank * self.batch_size : (self.rank + 1) * self.batch_size]
        each = -(-len(together) // self.world_size)
        positions = torch.arange(cursor, cursor + each * self.world_size) % self.samples
        return order[positions[self.rank * each : (self.rank + 1) * each]]


class Loader:
    """An iterable over batches, one epoch per ``for`` loop; see :func:`make_loader`."""

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
        self._loader = self._make(dataset, num_workers, kwargs)

    def __len__(self) -> int:
        """Batches that each rank gets in a whole epoch."""
        return self._share.batches_left(0)

    def __iter__(self) -> Iterator[Any]:
        if not self._resumed and self._cursor > 0:
            self._begin_next_epoch()
        self._resumed = False
        self._turn += 1
        return self._iterate(self._turn)

    @property
    def epoch(self) -> int:
        """The epoch of the iteration that runs or comes next, from 0."""
        return self._epoch

    @property
    def at_end(self) -> bool:
        """Whether the last batch of an epoch has been given and the next epoch has not begun."""
        return self._cursor > 0 and not self._resumed and self._share.batches_left(self._cursor) == 0

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

    def _iterate(self, turn: int) -> Iterator[Any]:
        if self._share.batches_left(self._cursor) == 0:
            return
        # of our own: torch's loader would draw from the global generator, once an epoch and once a resume
        self._generator.manual_seed(derive_seed(self._seed, self._epoch, self._share.rank))
        with quiet_start():
            batches = iter(self._loader)
        for batch in batches:
            if turn != self._turn:
                raise LoaderMisused(
                    "A loader was iterated over anew while an earlier iteration still ran.",
                    hint="Make two loaders: each keeps one position.",
                )
            self._cursor = min(self._cursor + self._share.stride, self._share.samples)
            yield batch

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
        order = _order(self._share.samples, self._seed, epoch, shuffle=self._shuffle)
        for _ in range(self._share.batches_left(cursor)):
            seed = derive_seed(self._seed, epoch, self._share.rank, cursor)
            yield [seed, self._share.batch(order, cursor)]
            cursor += self._share.stride


class _BatchSampler:
    """Asks its loader anew at the start of each iteration."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[list[Any]]:
        return self._loader._plan()  # noqa: SLF001 -- two halves of one thing

    def __len__(self) -> int:
        return len(self._loader)


def _order(samples: int, seed: int, epoch: int, *, shuffle: bool) -> torch.Tensor:
    """Return all indexes, (samples,), in the order of an epoch: a function of seed and epoch alone."""
    if not shuffle:
        return torch.arange(samples)
    generator = torch.Generator()
    generator.manual_seed(derive_seed("order", seed, epoch))
    return torch.randperm(samples, generator=generator)


def _as_it_is(batch: Any) -> Any:
    return batch
