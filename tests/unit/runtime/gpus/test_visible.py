"""``CUDA_VISIBLE_DEVICES`` says among which GPUs a lease may be, and is never taken for numbers where it has none."""

import pytest

from helpers import InvalidRequest
from helpers.runtime.gpus.visible import as_variable, usable_gpus
from tests.gpu_driver.cards import Cards


@pytest.fixture
def machine(cards: Cards) -> Cards:
    """Two whole cards, and one that is cut."""
    cards.are(
        [
            {"uuid": "GPU-aa1"},
            {"uuid": "GPU-ab2"},
            {"uuid": "GPU-cut", "slices": [{"uuid": "MIG-x"}, {"uuid": "MIG-y"}]},
        ]
    )
    return cards


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("value", "uuids"),
    [
        (None, ["GPU-aa1", "GPU-ab2", "MIG-x", "MIG-y"]),
        ("", []),
        ("NoDevFiles", []),
        ("1,0", ["GPU-ab2", "GPU-aa1"]),
        (" 1 , 0 ", ["GPU-ab2", "GPU-aa1"]),
        ("0,0", ["GPU-aa1"]),
        ("0,-1,1", ["GPU-aa1"]),
        ("2", ["MIG-x", "MIG-y"]),
        ("GPU-ab2", ["GPU-ab2"]),
        ("GPU-ab", ["GPU-ab2"]),
        ("MIG-y", ["MIG-y"]),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(value: str | None, uuids: list[str]) -> None:
    """Numbers, UUIDs, their beginnings, slices, spaces, any order; what follows -1 is not seen."""
    environment = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    assert [gpu.uuid for gpu in usable_gpus(environment)] == uuids


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("value", "said"), [("7", "no GPU 7"), ("GPU-zz", "no GPU GPU-zz"), ("GPU-a", "several")])
def test_what_this_machine_does_not_have_is_named(value: str, said: str) -> None:
    """CUDA would see none of them, and say nothing."""
    with pytest.raises(InvalidRequest, match=said):
        usable_gpus({"CUDA_VISIBLE_DEVICES": value})


@pytest.mark.usefixtures("machine")
def test_an_allocation_without_gpus_has_none() -> None:
    """The node's cards are seen where Slurm does not hide them; they are other jobs'."""
    assert usable_gpus({"SLURM_JOB_ID": "7"}) == []


def test_without_a_driver_the_variable_alone_tells(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins, and other makers' cards; a number of one allocation is not that of another."""
    monkeypatch.delenv("STAND_IN_CARDS")
    gpus = usable_gpus({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_ID": "7"})
    uuids = [gpu.uuid for gpu in gpus]
    assert (uuids, as_variable(uuids)) == (["7:0", "7:1"], "0,1")
