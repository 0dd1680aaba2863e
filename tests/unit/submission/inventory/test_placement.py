"""What could never run is refused with the nearest thing that would, and what runs costs what it takes."""

import pytest

from helpers.errors import InvalidRequest
from helpers.submission.inventory.inventory import Inventory, NodeGroup, Partition
from helpers.submission.inventory.placement import place, place_session
from helpers.submission.resources.request import read_request


def cluster(
    *, names: tuple[str, ...] = ("gpu",), nodes: int = 2, gpus: dict[str, int] | None = None, mem_mb: int = 64000
) -> Inventory:
    """Return a cluster whose partitions, the first the default, share alike nodes of four GPUs."""
    group = NodeGroup(count=nodes, usable=nodes, cpus=16, mem_mb=mem_mb, gpus=gpus or {"a100": 4})
    partitions = tuple(
        Partition(
            name=name,
            is_default=name == names[0],
            is_up=True,
            max_time_min=600,
            default_time_min=60,
            max_nodes=None,
            exclusive=False,
            preemptible=False,
            nodes=(group,),
        )
        for name in names
    )
    return Inventory(cluster="demo", partitions=partitions, max_array_size=1001, requeue_allowed=True)


@pytest.mark.parametrize(
    ("gpus", "words", "hint"),
    [
        (5, "and 5 GPUs cannot be spread evenly over so few nodes", "gpus=4 or gpus=6"),
        (7, "and 7 GPUs cannot be spread evenly over so few nodes", "gpus=6 or gpus=8"),
        (99, "8 in all, and this asks for 99", "gpus=8"),
        ("a100:5", "and 5 GPUs cannot be spread evenly", 'gpus="a100:4" or gpus="a100:6"'),
    ],
)
def test_gpus_that_cannot_be_spread_are_answered_with_the_nearest_that_can(
    gpus: int | str, words: str, hint: str
) -> None:
    """Five on nodes of four need five nodes with one each; there are two."""
    with pytest.raises(InvalidRequest, match=rf"has 2 nodes with 4 such GPUs for a job,? {words}|{words}") as refused:
        place(read_request(gpus=gpus), cluster())
    assert refused.value.hint == hint


@pytest.mark.parametrize(("names", "verb"), [(("gpu",), "gpu has"), (("gpu", "low"), "gpu, low have")])
def test_one_partition_has_and_several_have(names: tuple[str, ...], verb: str) -> None:
    """The sentence is read by people."""
    with pytest.raises(InvalidRequest, match=f"could ever run this: {verb} at most 4 GPUs a node"):
        place(read_request(gpus=8, nodes=1), cluster(names=names))


def test_nodes_that_there_are_not_are_answered_with_those_that_there_are() -> None:
    """The caller has chosen the nodes, so it is their number that has to change."""
    with pytest.raises(InvalidRequest, match="has 2 such nodes for a job, and this takes 3") as refused:
        place(read_request(gpus=3, nodes=3), cluster())
    assert refused.value.hint == "nodes=2"


@pytest.mark.parametrize(("gpus", "hint"), [(8, "nodes=2"), (32, "gpus=4"), ("a100:32", 'gpus="a100:4"')])
def test_more_gpus_than_a_node_has_are_answered_with_nodes_that_there_are(gpus: int | str, hint: str) -> None:
    """Eight nodes would do, and there are two."""
    with pytest.raises(InvalidRequest, match="has at most 4 ") as refused:
        place(read_request(gpus=gpus, nodes=1), cluster())
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("asked", "words", "hint"),
    [
        ({"cpus": 99}, "16 CPUs a node; 99 do not fit", "cpus=16"),
        ({"cpus": 99, "processes": 2}, "2 processes × 99 CPUs do not fit", "cpus=8"),
        ({"cpus": 10, "processes": 2}, "2 processes × 10 CPUs do not fit", "nodes=2"),
        ({"cpus": 5, "processes": 9}, "9 processes × 5 CPUs do not fit", "nodes=3"),
        ({"processes": 20}, "20 processes × 1 CPUs do not fit", "nodes=2"),
    ],
)
def test_too_many_cpus_are_answered_with_what_fits(asked: dict[str, int], words: str, hint: str) -> None:
    """``nodes=1`` for 99 CPUs on nodes of 16 is what had been asked for."""
    with pytest.raises(InvalidRequest, match=words) as refused:
        place(read_request(**asked), cluster(nodes=4))
    assert refused.value.hint == hint


@pytest.mark.parametrize(("gpus", "hint"), [(9, "gpus=4"), ("a100:5", 'gpus="a100:4"')])
def test_a_session_of_more_gpus_than_a_node_has_is_answered_with_what_one_has(gpus: int | str, hint: str) -> None:
    """It is on one node: more nodes are no way out."""
    with pytest.raises(InvalidRequest, match="none has more than 4 such GPUs") as refused:
        place_session(read_request(gpus=gpus, nodes=1), cluster())
    assert refused.value.hint == hint


@pytest.mark.parametrize(("gpus", "hours"), [("a100:2", 2.0), ("2g.10gb:1", 2 / 7), ("1g.5gb:1", 1 / 7)])
def test_a_slice_costs_the_part_of_a_gpu_that_it_is(gpus: str, hours: float) -> None:
    """Who takes two sevenths leaves five to others."""
    fit, _ = place(read_request(gpus=gpus, time="1h"), cluster(gpus={"a100": 4, "2g.10gb": 2, "1g.5gb": 2}))
    assert fit.gpu_hours == pytest.approx(hours)
