"""The device: one's own GPU or a clear error."""

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from helpers.errors import HelpersError
from helpers.training import get_device
from helpers.training.devices import device
from helpers.training.devices.device import GpuNotSeen, name_gpu


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that makes torch see a number of GPUs."""

    def see(count: int) -> None:
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))

    for name in ("HELPERS_GPUS", "HELPERS_ALLOW_CPU", "CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(device, "_said_cpu", False)
    return see


def _be_rank(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int) -> None:
    for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", world_size)):
        monkeypatch.setenv(name, str(value))


def test_without_a_gpu_asked_for_the_cpu_is_fine(gpus: Callable[[int], None]) -> None:
    """A laptop, or a job with gpus=0."""
    gpus(0)
    assert get_device() == torch.device("cpu")


def test_a_gpu_asked_for_and_not_seen_is_an_error_that_names_all_three(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent CPU run costs days before somebody looks."""
    gpus(0)
    monkeypatch.setenv("HELPERS_GPUS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234-abcd")
    with pytest.raises(GpuNotSeen, match=r"4 asked for.*0 seen.*CUDA_VISIBLE_DEVICES is 'MIG-1234-abcd'") as caught:
        get_device()
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, HelpersError)


def test_an_unset_variable_is_told_from_an_empty_one(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty means that somebody hid the GPUs on purpose."""
    gpus(0)
    monkeypatch.setenv("HELPERS_GPUS", "1")
    with pytest.raises(GpuNotSeen, match="CUDA_VISIBLE_DEVICES is not set"):
        get_device()


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_the_cpu_can_be_allowed_and_is_then_said_once(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """Test clusters have fake GPUs; even there nobody should be in doubt."""
    gpus(0)
    monkeypatch.setenv("HELPERS_GPUS", "1")
    if way == "variable":
        monkeypatch.setenv("HELPERS_ALLOW_CPU", "true")
    assert get_device(allow_cpu=way == "argument") == torch.device("cpu")
    get_device(allow_cpu=way == "argument")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "training on the CPU" in said


def test_each_rank_takes_the_gpu_of_its_local_rank(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that all ranks train on number 0 (submitit #1704)."""
    gpus(4)
    _be_rank(monkeypatch, 3, 4)
    assert get_device() == torch.device("cuda", 3)


def test_one_visible_gpu_is_number_0_for_every_rank(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --gpus-per-task=1 each rank sees one; its local rank would be out of range (mace #435)."""
    gpus(1)
    _be_rank(monkeypatch, 3, 4)
    assert get_device() == torch.device("cuda", 0)


def test_a_rank_without_a_gpu_of_its_own_is_an_error(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sharing a GPU by chance is slow and runs out of memory."""
    gpus(2)
    _be_rank(monkeypatch, 3, 4)
    with pytest.raises(GpuNotSeen, match="Process 3 of this node has no GPU of its own"):
        get_device()


def test_a_job_that_asked_for_none_takes_none(gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node without device constraints it would see other people's."""
    gpus(2)
    monkeypatch.setenv("HELPERS_GPUS", "0")
    assert get_device() == torch.device("cpu")


VARIABLES = {
    "one number": ("0", 1),
    "another order": ("3,1,0", 3),
    "spaces": (" 2 , 0 ", 2),
    "UUIDs": ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-7f2a", 2),
    "a MIG slice": ("MIG-c7384736-a75d-5afc-978f-d2f1294409fd", 1),
    "a MIG slice as drivers before 470 name it": ("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0", 1),
}


@pytest.mark.parametrize(("value", "seen"), VARIABLES.values(), ids=VARIABLES)
def test_the_variable_is_neither_read_as_numbers_nor_written(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, value: str, seen: int
) -> None:
    """What torch counts is right; int() of a UUID is a crash, and a number of the variable is no index."""
    gpus(seen)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    for rank in range(seen):
        _be_rank(monkeypatch, rank, seen)
        assert get_device() == torch.device("cuda", rank)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == value


@pytest.mark.parametrize("value", ["", "NoDevFiles", " ", "-1"])
def test_a_variable_that_hides_all_gpus_is_shown_as_it_is(
    gpus: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Slurm sets NoDevFiles in a job that has none; a user sets it empty to debug, and forgets."""
    gpus(0)
    monkeypatch.setenv("HELPERS_GPUS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with pytest.raises(GpuNotSeen) as caught:
        get_device()
    assert f"CUDA_VISIBLE_DEVICES is {value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("0", "aa"),
        ("GPU-1", "aa"),
        ("MIG-1", "aa MIG-1"),
        ("MIG-1, MIG-2", "aa MIG-1"),
        ("MIG-GPU-1/2/0", "aa MIG-GPU-1/2/0"),
    ],
)
def test_two_slices_of_one_card_have_two_names(monkeypatch: pytest.MonkeyPatch, value: str, name: str) -> None:
    """They bear their card's UUID, and two ranks on two slices are in order; two on one are not."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: SimpleNamespace(uuid="aa"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert name_gpu(torch.device("cuda", 0)) == name


def test_a_cpu_has_no_name() -> None:
    """Any number of ranks may share it."""
    assert name_gpu(torch.device("cpu")) is None
