"""What is written about streams: split by rank and worker, and passed over up to where a run went on."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from helpers.runtime.current import current_run
from helpers.training import Checkpointer


class Stream(IterableDataset[int]):
    """The numbers from 0 on; each rank and worker takes its own share, as in docs/how-to/loading-data.md."""

    def __iter__(self) -> Any:
        run, worker = current_run(), get_worker_info()
        share, shares = run.rank, run.world_size
        if worker is not None:
            share, shares = share * worker.num_workers + worker.id, shares * worker.num_workers
        return itertools.islice(itertools.count(), share, None, shares)


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def _train(folder: Path, steps: int, *, workers: int) -> tuple[list[list[int]], torch.Tensor]:
    """Go on to a number of steps; return the batches of this attempt, and the weight at its end."""
    weight = torch.zeros(())
    checkpoint = Checkpointer({"weight": weight}, folder=folder)
    loader = DataLoader(Stream(), batch_size=4, num_workers=workers, generator=torch.Generator())
    batches = itertools.islice(loader, checkpoint.restore(), None)
    seen = []
    for _ in checkpoint.steps(steps):
        batch = next(batches)
        seen.append(batch.tolist())
        weight.mul_(0.9).add_(batch.float().mean() * torch.rand(()))
        checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    (folder / "lease.json").unlink(missing_ok=True)  # the next attempt is of this process, too
    return seen, weight


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_over_a_stream_goes_on_where_it_was_bit_for_bit(tmp_path: Path, workers: int) -> None:
    """Torch's loader does not go by which worker is faster; without a generator it would draw from the training's."""
    torch.manual_seed(3)
    straight, expected = _train(tmp_path / "straight", 7, workers=workers)
    torch.manual_seed(3)
    first, _ = _train(tmp_path / "stopped", 4, workers=workers)
    torch.manual_seed(99)
    second, weight = _train(tmp_path / "stopped", 7, workers=workers)
    assert first + second == straight
    assert torch.equal(weight, expected)


def test_each_rank_and_worker_reads_what_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the split every sample is trained on once a worker and rank."""
    seen = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        loader = DataLoader(Stream(), batch_size=3, num_workers=2)
        seen += [number for batch in itertools.islice(loader, 4) for number in batch.tolist()]
    assert sorted(seen) == list(range(24))
