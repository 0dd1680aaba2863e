"""Prefetching: batches come early, and the position is still that of the loop."""

import threading
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset

from helpers.errors import InvalidRequest
from helpers.training import Checkpointer, make_loader, prefetch
from helpers.training.data.nested_batch import move, tensors_in

CPU = torch.device("cpu")
META = torch.device("meta")
PATIENCE_S = 60


class Numbers(Dataset[Any]):
    """Each sample is its own number."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        return index


class Watched(Numbers):
    """Tells which samples have been read."""

    def __init__(self) -> None:
        self.read = [threading.Event() for _ in range(10)]

    def __getitem__(self, index: int) -> int:
        self.read[index].set()
        return index


class Fails(Numbers):
    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise OSError("sample 5 cannot be read")
        return index


class Draws(Numbers):
    def __getitem__(self, index: int) -> Any:
        return index, torch.rand(1).item()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "helpers-prefetch"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Whatever becomes of a loop, its thread ends."""
    yield
    assert threads() == []


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("depth", [1, 3, 20])
def test_it_gives_the_same_batches_in_the_same_order(workers: int, depth: int) -> None:
    """Epoch after epoch."""
    plain = make_loader(Numbers(), batch_size=3, shuffle=True)
    early = prefetch(make_loader(Numbers(), batch_size=3, shuffle=True, num_workers=workers), "cpu", depth=depth)
    for _ in range(2):
        assert [batch.tolist() for batch in early] == [batch.tolist() for batch in plain]
    assert len(early) == 4


def test_a_batch_that_the_loop_has_not_seen_is_not_consumed() -> None:
    """A requeued run would leave out what was read ahead."""
    data = Watched()
    loader = make_loader(data, batch_size=1)
    consumed = []
    for _ in prefetch(loader, CPU, depth=4):
        assert data.read[min(len(consumed) + 4, 9)].wait(PATIENCE_S)
        consumed.append(loader.state_dict()["consumed"])
    assert consumed == list(range(1, 11))


def test_a_run_resumes_exactly_through_a_checkpointer(tmp_path: Path) -> None:
    """It is the position of the loop that is saved, also where the prefetched loader itself is in the state."""
    numbers = train(tmp_path / "straight", until_step=8)
    first = train(tmp_path / "broken", until_step=3)
    assert first + train(tmp_path / "broken", until_step=8) == numbers
    assert len(numbers) == 8


def train(folder: Path, *, until_step: int) -> list[list[int]]:
    """Go through two epochs of four batches, and leave off after a step that is saved."""
    loader = prefetch(make_loader(Numbers(), batch_size=3, shuffle=True, num_workers=1), CPU)
    checkpoint = Checkpointer({"loader": loader}, folder=folder, save_every=1)
    seen: list[list[int]] = []
    begun = 0
    for _ in checkpoint.epochs(2):
        for batch in loader:
            seen.append(batch.tolist())
            checkpoint.step()
            begun = loader.epoch * 4 + loader.state_dict()["consumed"] // 3
            if begun == until_step:
                checkpoint.wait()
                return seen
    checkpoint.wait()
    return seen


def test_reading_goes_on_while_the_loop_computes() -> None:
    """That is what it is for: here the loop waits until the next batch has been read."""
    read = [threading.Event() for _ in range(3)]

    def batches() -> Iterator[int]:
        for number, event in enumerate(read):
            event.set()
            yield number

    for number in prefetch(batches(), CPU, depth=1):
        assert read[min(number + 1, 2)].wait(PATIENCE_S)


def test_no_more_is_read_than_depth_says() -> None:
    """A device has little memory to spare."""
    read: list[int] = []

    def batches() -> Iterator[int]:
        for number in range(20):
            read.append(number)
            yield number

    for number in prefetch(batches(), CPU, depth=2):
        assert len(read) <= number + 4  # the loop's own, two ahead, and the one whose place has just become free


def test_an_error_is_raised_at_its_own_step() -> None:
    """Batches before it are trained on first."""
    seen: list[Any] = []
    with pytest.raises(OSError, match="sample 5 cannot be read"):
        seen.extend(batch.tolist() for batch in prefetch(make_loader(Fails(), batch_size=1), CPU, depth=4))
    assert seen == [[0], [1], [2], [3], [4]]


def test_an_error_of_the_first_batch_is_raised_too() -> None:
    """No thread runs yet then."""

    def batches() -> Iterator[int]:
        raise OSError("nothing there")
        yield 0

    with pytest.raises(OSError, match="nothing there"):
        list(prefetch(batches(), CPU))
    assert list(prefetch(iter(()), CPU)) == []


def test_a_loop_that_is_left_ends_its_thread() -> None:
    """The next epoch begins anew, with the right batches."""
    early = prefetch(make_loader(Numbers(), batch_size=1), CPU)
    for batch in early:
        if batch.item() == 3:
            break
    assert threads() == []
    assert [batch.item() for batch in early] == list(range(10))


def test_random_numbers_of_the_training_are_not_drawn_ahead() -> None:
    """A run resumed between the two would draw them twice; workers have generators of their own."""
    with pytest.raises(InvalidRequest, match=r"num_workers=1"):
        list(prefetch(make_loader(Draws(), batch_size=2), CPU))
    assert len(list(prefetch(make_loader(Draws(), batch_size=2, num_workers=1), CPU))) == 5


def test_a_position_that_cannot_be_held_back_is_refused() -> None:
    """It would tell of batches that nobody has seen."""

    class Stateful(DataLoader[Any]):
        def state_dict(self) -> dict[str, int]:
            return {}

    with pytest.raises(InvalidRequest, match=r"Stateful has a state_dict\(\)"):
        prefetch(Stateful(Numbers()), CPU)
    with pytest.raises(InvalidRequest, match="got depth=0"):
        prefetch(DataLoader(Numbers()), CPU, depth=0)


def test_torchs_own_loader_is_read_ahead_too() -> None:
    """It has no position to keep."""
    data = TensorDataset(torch.arange(4), torch.arange(4) * 2)
    found = [[tensor.tolist() for tensor in batch] for batch in prefetch(DataLoader(data, batch_size=2), "cpu")]
    assert found == [[[0, 1], [0, 2]], [[2, 3], [4, 6]]]


class Pair(NamedTuple):
    image: Any
    label: Any


@dataclass(frozen=True)
class Sample:
    image: Any
    name: str
    size: int = field(init=False, default=7)


@pytest.mark.parametrize(
    "batch",
    [
        Pair(torch.zeros(2), "cat"),
        (torch.zeros(2), [torch.ones(1), None]),
        OrderedDict(a=torch.zeros(1), b={"c": torch.ones(2)}),
        defaultdict(list, a=torch.zeros(1)),
        Sample(torch.zeros(3), "cat"),
        UserDict(a=torch.zeros(1)),
        pack_sequence([torch.ones(3), torch.ones(1)]),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_a_batch_keeps_its_shape(batch: Any) -> None:
    """A collate function may give what it likes."""
    moved = move(batch, META)
    assert type(moved) is type(batch)
    assert "meta" in {tensor.device.type for tensor in tensors_in(moved)}
    assert {tensor.device.type for tensor in tensors_in(batch)} == {"cpu"}


def test_what_is_no_tensor_stays() -> None:
    """Names of files, sizes, and fields that the class makes itself."""
    moved = move({"sample": Sample(torch.zeros(1), "cat"), "paths": ["a", "b"], "none": None}, META)
    assert (moved["sample"].name, moved["sample"].size) == ("cat", 7)
    assert (moved["paths"], moved["none"]) == (["a", "b"], None)


@pytest.mark.gpu
def test_on_a_gpu_the_batches_arrive_whole_while_memory_is_reused() -> None:
    """A batch whose memory is given away before the computation has read it would be another batch."""
    data = torch.arange(64, dtype=torch.float32).repeat_interleave(1 << 16).reshape(64, -1)
    sums = []
    for (batch,) in prefetch(make_loader(TensorDataset(data), batch_size=1), "cuda", depth=3):
        torch.cuda._sleep(2_000_000)
        sums.append(batch.mean())
        del batch
    assert [total.item() for total in sums] == list(range(64))
