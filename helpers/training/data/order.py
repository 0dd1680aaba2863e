"""Say which samples come next: the order of an epoch, and each rank's share of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from helpers.training.checkpoints.random_state import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_ONCE = 256  # batches


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

    def batches(self, order: torch.Tensor, cursor: int) -> Iterator[tuple[int, list[int]]]:
        """Yield this rank's batches from ``cursor`` on: where each begins, and its indexes.

        Args:
            order: As for :meth:`batch`.
            cursor: As for :meth:`batch`.
        """
        whole = (self.samples - cursor) // self.stride
        while whole > 0:  # many at once: one by one, slicing tensors costs more than all else here
            now = min(whole, _AT_ONCE)
            rows = order[cursor : cursor + now * self.stride].view(now, self.world_size, self.batch_size)
            for indexes in rows[:, self.rank].tolist():
                yield cursor, indexes
                cursor += self.stride
            whole -= now
        if self.batches_left(cursor) > 0:
            yield cursor, self.batch(order, cursor).tolist()

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


def order_of(samples: int, seed: int, epoch: int, *, shuffle: bool) -> torch.Tensor:
    """Return all indexes, (samples,), in the order of an epoch: a function of seed and epoch alone."""
    if not shuffle:
        return torch.arange(samples)
    generator = torch.Generator()
    generator.manual_seed(derive_seed("order", seed, epoch))
    return torch.randperm(samples, generator=generator)
