"""What a caller leaves out follows from what was asked for, and nonsense never reaches the queue."""

import pytest

from helpers import InvalidRequest
from helpers.submission.request import read_request


@pytest.mark.parametrize(
    ("asked", "processes"),
    [({}, 1), ({"gpus": 4}, 4), ({"gpus": 4, "processes": 1}, 1), ({"nodes": 2}, 2), ({"gpus": 8, "nodes": 2}, 8)],
)
def test_there_is_one_process_for_each_gpu_or_else_for_each_node(asked: dict[str, int], processes: int) -> None:
    """The same function runs unchanged on one GPU and on four nodes."""
    assert read_request(**asked).settle().processes == processes


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"gpus": 6, "nodes": 4}, "possible: 1, 2, 3, 6"),
        ({"processes": 3, "nodes": 2}, "possible: 1, 3"),
        ({"processes": 1, "nodes": 2}, "nodes=1"),
    ],
)
def test_an_uneven_spread_is_refused_with_the_possible_ones(asked: dict[str, int], hint: str) -> None:
    """Slurm would round in silence, and one rank would have no GPU."""
    with pytest.raises(InvalidRequest, match=hint):
        read_request(**asked).settle()


@pytest.mark.parametrize("keyword", ["nodes", "processes", "cpus"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_a_count_is_a_whole_number_from_one_up(keyword: str, value: object) -> None:
    """The error names the keyword; Slurm's would name an option that the caller never wrote."""
    with pytest.raises(InvalidRequest, match=f"{keyword} is a whole number"):
        read_request(**{keyword: value}).settle()


@pytest.mark.parametrize("minutes", [1, 2, 5, 10, 1440])
def test_the_warning_comes_well_within_the_limit(minutes: int) -> None:
    """A warning at or before the start would stop every attempt at once, for ever."""
    assert 10 <= read_request(time=minutes).settle().warning_s <= minutes * 60 / 4


@pytest.mark.parametrize("option", ["gpus-per-node", "--ntasks", "cpus_per_task", "output", "array", "dependency"])
def test_an_option_that_this_library_writes_itself_is_refused_by_name(option: str) -> None:
    """Two values for one option: the last one wins, and nobody knows which that is."""
    with pytest.raises(InvalidRequest, match="contradict"):
        read_request(slurm={option: "1"}).settle()


def test_the_sentence_says_what_was_asked_for() -> None:
    """The one line that is printed must be enough to see a mistake."""
    sentence = read_request(gpus="a100:8", nodes=2, cpus=4, mem="64G", time="8h", partition="long").settle().sentence()
    assert sentence == "long · 2 nodes × 4 processes · 8 a100 GPUs · 4 CPUs each · 64G · 8h"
