"""What the driver's library is asked, and what is made of its answers."""

import pytest

from helpers import InvalidRequest
from helpers.runtime.gpus.nvml import Gpu, GpuProcess, list_gpus, read_slowdowns
from tests.gpu_driver.cards import Cards


def test_a_card_is_told_with_who_computes_on_it(cards: Cards) -> None:
    """By its UUID, which no variable and no order changes."""
    cards.are([{"uuid": "GPU-a", "busy": 7, "used_mb": 1024, "processes": [[12, 900]], "drawing": [[3, 20]]}])
    assert list_gpus() == [
        Gpu(
            uuid="GPU-a",
            index="0",
            name="NVIDIA H200",
            memory_mb=143771,
            used_mb=1024,
            busy_percent=7,
            processes=(GpuProcess(pid=12, memory_mb=900),),
            drawing_mb=20,
        )
    ]


def test_a_card_that_is_cut_counts_as_its_slices(cards: Cards) -> None:
    """Each is a GPU of its own to CUDA; the card itself is none any more, and has no figure for how busy one is."""
    cards.are([{"uuid": "GPU-a", "slices": [{"uuid": "MIG-a"}, {"uuid": "MIG-b"}]}, {"uuid": "GPU-b"}])
    found = [(gpu.uuid, gpu.index, gpu.is_slice, gpu.busy_percent) for gpu in list_gpus()]
    assert found == [("MIG-a", "0:0", True, None), ("MIG-b", "0:1", True, None), ("GPU-b", "1", False, 0)]


@pytest.mark.parametrize(
    ("card", "is_used"),
    [
        ({"processes": [[12, 0]]}, True),
        ({"used_mb": 600}, False),  # what a driver keeps for itself
        ({"used_mb": 3000}, True),  # of a process in a container, which is not shown
        ({"used_mb": 3000, "drawing": [[3, 2800]]}, False),  # a desktop
    ],
)
def test_use_is_a_process_or_memory_that_one_must_have(cards: Cards, card: dict[str, object], is_used: bool) -> None:
    """A GPU that somebody computes on is to be left alone; one that shows a desktop is not."""
    cards.are([{"uuid": "GPU-a", **card}])
    assert list_gpus()[0].is_used is is_used


def test_what_lowers_a_cards_clocks_is_told_in_words(cards: Cards) -> None:
    """A power cap (0x4) and an idle card (0x1) lower them, too, and are as they should be."""
    cards.are([{"uuid": "GPU-a", "slowed": 0x1 | 0x4 | 0x20 | 0x80}, {"uuid": "GPU-b"}])
    assert read_slowdowns("GPU-a") == ["heat", "a power brake"]
    assert read_slowdowns("GPU-b") == read_slowdowns("GPU-unknown") == []


def test_a_machine_without_a_driver_has_no_gpus(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop."""
    monkeypatch.delenv("STAND_IN_CARDS")
    assert (list_gpus(), read_slowdowns("GPU-a")) == ([], [])


def test_a_driver_that_does_not_work_says_so(cards: Cards) -> None:
    """No GPU and a broken driver are two things."""
    cards.are([{"broken": True}])
    with pytest.raises(InvalidRequest, match="library version mismatch"):
        list_gpus()
