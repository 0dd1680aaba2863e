"""What a caller leaves out follows from what was asked for, and nonsense never reaches the queue."""

from typing import Any

import pytest

from helpers import InvalidRequest
from helpers.submission.resources.request import read_request


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


@pytest.mark.parametrize(
    "option",
    ["gpus-per-node", "--ntasks", "cpus_per_task", "output", "array", "dependency", "ntasks-per-gpu", "no-requeue"],
)
def test_an_option_that_this_library_writes_itself_is_refused_by_name(option: str) -> None:
    """Two values for one option: the last one wins, and nobody knows which that is."""
    with pytest.raises(InvalidRequest, match="contradict"):
        read_request(slurm={option: "1"}).settle()


@pytest.mark.parametrize(
    ("keyword", "value", "option", "said"),
    [
        ("gpus", 1, "gres", "gpu:2"),
        ("gpus", "a100:1", "gres", "tmpdisk:10,gpu:a100:1"),
        ("gpus", 2, "gpus-per-task", 1),
        ("cpus", 4, "cpus-per-gpu", 2),
        ("mem", "2G", "mem-per-cpu", "1G"),
        ("mem", 2, "mem_per_gpu", "1G"),
    ],
)
def test_what_is_asked_for_in_two_ways_is_refused(keyword: str, value: object, option: str, said: object) -> None:
    """Of GPUs Slurm takes the larger number in silence; of the others it refuses both, in words of its own."""
    asked: dict[str, Any] = {keyword: value, "slurm": {option: said}}
    with pytest.raises(InvalidRequest, match=f"{keyword}=.* ask for the same in two ways"):
        read_request(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"gpus": 1, "slurm": {"gres": "tmpdisk:10"}},
        {"slurm": {"gres": "gpu:1"}},
        {"gpus": "0", "slurm": {"gres": "gpu:1"}},
        {"mem": "2G", "slurm": {"mem-per-cpu": None}},
        {"mem": "2G", "gpus": 1, "slurm": {"cpus-per-gpu": 2}},
    ],
)
def test_what_is_asked_for_once_is_not(asked: dict[str, Any]) -> None:
    """An option that says something else, or that None takes away, stands beside any keyword."""
    assert read_request(**asked).settle().slurm == asked["slurm"]


@pytest.mark.parametrize("option", ["mem-per-cpu", "mem-per-gpu"])
def test_an_option_takes_the_place_of_the_fair_share(option: str) -> None:
    """``sbatch`` refuses memory for the node beside it: no job with GPUs could use the option."""
    settled = read_request(gpus=1, slurm={option: "1G"}).settle(cpus=4, mem_mb=2000)
    assert (settled.mem_mb, settled.cpus) == (None, 4)
    settled = read_request(gpus=1, slurm={"cpus-per-gpu": 2}).settle(cpus=4, mem_mb=2000)
    assert (settled.mem_mb, settled.cpus) == (2000, None)


def test_the_sentence_says_what_was_asked_for() -> None:
    """The one line that is printed must be enough to see a mistake."""
    sentence = read_request(gpus="a100:8", nodes=2, cpus=4, mem="64G", time="8h", partition="long").settle().sentence()
    assert sentence == "long · 2 nodes × 4 processes · 8 a100 GPUs · 4 CPUs each · 64G · 8h"
