"""The loader: every sample once an epoch, in an order that a resume does not change."""

import os
import pickle
import signal
import time
from multiprocessing import forkserver
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from helpers.errors import InvalidRequest
from helpers.training import make_loader
from helpers.training.data.loader import LoaderMisused
from helpers.training.data.order import Share, order_of
from tests.waiting import wait_for


class Numbers(Dataset[Any]):
    """Each sample is its own number, and a random one."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, torch.rand(1).item()


def _numbers(loader: Any) -> list[int]:
    return [number for batch in loader for number in batch[0].tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_has_every_sample_once_and_the_next_anotherorder_of(workers: int) -> None:
    """Otherwise some are seen twice and others never (accelerate #2823)."""
    loader = make_loader(Numbers(10), batch_size=3, shuffle=True, num_workers=workers)
    first, second = _numbers(loader), _numbers(loader)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert len(loader) == 4


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    """Not on what was drawn before, nor on the workers."""
    one = make_loader(Numbers(20), batch_size=3, shuffle=True, seed=4)
    torch.rand(100)
    other = make_loader(Numbers(20), batch_size=5, shuffle=True, seed=4, num_workers=1)
    assert _numbers(one) == _numbers(other)
    assert _numbers(make_loader(Numbers(20), batch_size=3, shuffle=True, seed=5)) != _numbers(one)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("consumed", [0, 1, 3, 4, 5])
def test_it_goes_on_after_the_last_batch_consumed(workers: int, consumed: int) -> None:
    """Batches that workers have read ahead are not lost, and their random numbers are the same."""
    straight = make_loader(Numbers(14), batch_size=3, shuffle=True, num_workers=workers)
    resumed = make_loader(Numbers(14), batch_size=3, shuffle=True, num_workers=workers)
    other = make_loader(Numbers(14), batch_size=3, shuffle=True, num_workers=workers)
    expected = [[list(batch[0]), list(batch[1])] for _ in range(2) for batch in straight]
    iterator = iter(other)
    for _ in range(consumed):
        next(iterator)
    resumed.load_state_dict(other.state_dict())
    iterator.close()
    found = [[list(batch[0]), list(batch[1])] for _ in range(2) for batch in resumed]
    if workers == 0:  # random numbers are the main process's own
        expected = [batch[:1] for batch in expected]
        found = [batch[:1] for batch in found]
    assert found == expected[consumed:]


def test_it_draws_nothing_from_the_global_generator() -> None:
    """An epoch begun anew would otherwise change the dropout of a resumed run."""
    loader = make_loader(TensorDataset(torch.arange(8)), batch_size=2, shuffle=True)
    before = torch.get_rng_state()
    list(loader)
    assert torch.equal(torch.get_rng_state(), before)


def test_leaving_an_epoch_early_begins_the_next() -> None:
    """As torch's loader does."""
    loader = make_loader(Numbers(10), batch_size=2, shuffle=True)
    for _ in loader:
        break
    assert _numbers(loader) == order_of(10, 0, 1, shuffle=True).tolist()


def test_the_end_of_an_epoch_is_a_position_too() -> None:
    """A run that stopped during evaluation neither drops nor repeats an epoch (torchdata #1437)."""
    loader = make_loader(Numbers(6), batch_size=2, shuffle=True)
    list(loader)
    at_end = loader.state_dict()
    loader.finish_epoch()
    finished = loader.state_dict()
    loader.load_state_dict(at_end)
    assert _numbers(loader) == []
    assert _numbers(loader) == order_of(6, 0, 1, shuffle=True).tolist()
    loader.load_state_dict(finished)
    assert _numbers(loader) == order_of(6, 0, 1, shuffle=True).tolist()


@pytest.mark.parametrize("samples", [1, 5, 24, 25, 30])
@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_rank_gets_equally_many_batches_and_no_sample_is_lost(
    samples: int, world_size: int, drop_last: bool
) -> None:
    """Unequal epochs hang in the last collective."""
    ranks = [
        Share(samples=samples, batch_size=3, rank=rank, world_size=world_size, drop_last=drop_last)
        for rank in range(world_size)
    ]
    order = order_of(samples, 0, 0, shuffle=True)
    seen: list[int] = []
    for step in range(ranks[0].batches_left(0)):
        batches = [share.batch(order, step * share.stride).tolist() for share in ranks]
        assert len({len(batch) for batch in batches}) == 1
        seen += [number for batch in batches for number in batch]
    if drop_last:
        assert len(seen) == samples // (3 * world_size) * 3 * world_size == len(set(seen))
    else:
        assert set(seen) == set(range(samples))
        assert len(seen) - samples < world_size


@pytest.mark.parametrize("worlds", [(2, 1), (1, 2), (4, 3), (2, 4)])
def test_another_number_of_ranks_goes_on_in_the_midst_of_an_epoch(worlds: tuple[int, int]) -> None:
    """What has been consumed is a prefix of the order, whoever consumed it."""
    order = order_of(48, 3, 0, shuffle=True)
    seen: list[int] = []
    cursor = 0
    for world_size, steps in zip(worlds, (2, None), strict=True):
        ranks = [
            Share(samples=48, batch_size=2, rank=r, world_size=world_size, drop_last=False) for r in range(world_size)
        ]
        for _ in range(steps or ranks[0].batches_left(cursor)):
            seen += [number for share in ranks for number in share.batch(order, cursor).tolist()]
            cursor += ranks[0].stride
    assert set(seen) == set(range(48))
    assert len(seen) - 48 < worlds[1]  # what makes the last batch equal in all ranks


def test_a_tensor_data_set_is_indexed_by_whole_batches() -> None:
    """One index operation instead of a loop over samples; the same batches as torch gives."""
    data = TensorDataset(torch.arange(12).reshape(6, 2), torch.arange(6))
    loader = make_loader(data, batch_size=4)
    expected = [default_collate([data[i] for i in rows]) for rows in ([0, 1, 2, 3], [4, 5])]
    for batch, whole in zip(loader, expected, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(batch, whole, strict=True))


def test_persistent_workers_follow_the_epochs() -> None:
    """Their copy of the data set lives on from epoch to epoch (datasets #7447)."""
    loader = make_loader(Numbers(6), batch_size=2, shuffle=True, num_workers=1, persistent_workers=True)
    plain = make_loader(Numbers(6), batch_size=2, shuffle=True)
    assert [_numbers(loader) for _ in range(3)] == [_numbers(plain) for _ in range(3)]


def test_workers_are_deaf_to_the_scheduler_but_not_to_their_parent() -> None:
    """A signal to the whole job would end them before the step's boundary is reached (KempnerForge #177)."""
    before = _children()
    loader = make_loader(Numbers(40), batch_size=1, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    pids = [int(pid) for pid in _children() if pid not in before]
    assert len(pids) == 2
    helper = os.fork()
    if helper == 0:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        os._exit(0)
    os.waitpid(helper, 0)
    assert len(list(iterator)) == 39


def _children() -> list[str]:
    return _children_of(os.getpid())


def _children_of(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return file.read().split()


class Stuck(Numbers):
    def __getitem__(self, index: int) -> tuple[int, float]:
        if index:
            time.sleep(600)
        return index, 0.0


def test_a_stuck_worker_still_ends_with_its_parent() -> None:
    """Deaf workers must not keep a job's node busy."""
    before = _children()
    loader = make_loader(Stuck(4), batch_size=1, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    [pid] = [child for child in _children() if child not in before]
    os.kill(int(pid), signal.SIGTERM)  # from the parent, as torch does at last
    wait_for(lambda: pid not in _children() or _is_zombie(pid), "it ends")
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iterator)


def _is_zombie(pid: str) -> bool:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.fixture
def cuda_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has begun to use its GPU, as far as the loader can tell, and has no fork server yet."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("multiprocessing.get_start_method", lambda: "fork")
    monkeypatch.setattr("helpers.training.data.workers._said_forkserver", False)


@pytest.mark.usefixtures("cuda_in_use")
def test_nothing_is_forked_once_cuda_is_in_use(capfd: pytest.CaptureFixture[str]) -> None:
    """CUDA does not work in a fork; the batches are the same, and the workers still deaf to the scheduler."""
    before = _children()
    loader = make_loader(Numbers(40), batch_size=1, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    helpers = [child for child in _children() if child not in before]  # the fork server, unless it ran already
    workers = _children_of(_fork_server())
    for pid in [*workers, *helpers, str(_fork_server())]:
        _signal_from_elsewhere(int(pid))
    assert len(workers) == 1
    assert len(list(iterator)) == 39
    assert len(_numbers(loader)) == 40
    assert capfd.readouterr().err.count("workers are started by forkserver") == 1


def _fork_server() -> int:
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    assert isinstance(pid, int)
    return pid


def _signal_from_elsewhere(pid: int) -> None:
    helper = os.fork()
    if helper == 0:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGUSR2)
        os._exit(0)
    os.waitpid(helper, 0)


@pytest.mark.filterwarnings("ignore:Got pickle error:UserWarning")  # torch says something of it, too
@pytest.mark.usefixtures("cuda_in_use")
def test_a_data_set_that_only_a_fork_can_have_says_what_to_do() -> None:
    """It worked before the model was put on the GPU, and pickle's words do not tell why it no longer does."""

    class Local(Numbers):
        pass

    with pytest.raises((AttributeError, pickle.PicklingError)) as caught:
        list(make_loader(Local(4), batch_size=1, num_workers=1))
    assert 'multiprocessing_context="fork"' in caught.value.__notes__[0]
    forked = make_loader(Local(4), batch_size=1, num_workers=1, multiprocessing_context="fork")
    assert _numbers(forked) == [0, 1, 2, 3]


def test_memory_is_page_locked_where_there_is_a_gpu_to_copy_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies from other memory are not asynchronous; without a GPU torch would warn."""
    assert make_loader(Numbers(4), batch_size=1)._loader.pin_memory is torch.cuda.is_available()
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert make_loader(Numbers(4), batch_size=1)._loader.pin_memory is True
    assert make_loader(Numbers(4), batch_size=1, pin_memory=False)._loader.pin_memory is False
    monkeypatch.setenv("HELPERS_GPUS", "0")
    assert make_loader(Numbers(4), batch_size=1)._loader.pin_memory is False


def test_the_number_of_workers_can_be_left_to_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as Slurm gave, not as the node has; and torch does not warn of too many."""
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    loader = make_loader(Numbers(4), batch_size=1, num_workers="auto")
    assert loader._loader.num_workers == 1
    assert _numbers(loader) == [0, 1, 2, 3]


def test_two_iterations_at_once_are_refused() -> None:
    """The loader has one position."""
    loader = make_loader(Numbers(4), batch_size=1)
    first = iter(loader)
    next(first)
    next(iter(loader))
    with pytest.raises(LoaderMisused, match="anew while an earlier iteration"):
        next(first)


def test_a_changed_data_set_and_another_seed_are_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """A position in another order means nothing."""
    position = make_loader(Numbers(4), batch_size=1, shuffle=True, seed=1).state_dict()
    with pytest.raises(ValueError, match="had 4 samples and has 5 now"):
        make_loader(Numbers(5), batch_size=1).load_state_dict(position)
    resumed = make_loader(Numbers(4), batch_size=1, shuffle=True, seed=2)
    resumed.load_state_dict(position)
    assert _numbers(resumed) == order_of(4, 1, 0, shuffle=True).tolist()
    assert "saved seed 1, not with 2" in capsys.readouterr().err


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


class Endless(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


def test_a_stream_has_no_position_and_is_refused_with_lines_that_do() -> None:
    """Nobody could go on in the midst of it by a number; test_streams.py follows the lines."""
    with pytest.raises(InvalidRequest, match=r"Stream is a stream \(IterableDataset\)") as caught:
        make_loader(Stream(), batch_size=7)
    assert "DataLoader(dataset, batch_size=7, generator=torch.Generator())" in caught.value.hint
    assert "islice(batches, checkpoint.restore(), None)" in caught.value.hint


def test_what_has_no_position_is_refused() -> None:
    """So is what would decide on it beside the loader."""
    with pytest.raises(InvalidRequest, match="Endless has no __len__"):
        make_loader(Endless(), batch_size=1)
    with pytest.raises(InvalidRequest, match=r"decides on sampler itself(.|\n)*Subset\(dataset, drawn\)"):
        make_loader(Numbers(3), batch_size=1, sampler=[0])
    with pytest.raises(InvalidRequest, match="at least 1, got 0"):
        make_loader(Numbers(3), batch_size=0)
