"""What could never run is refused with the nearest thing that would, and what runs costs what it takes."""

import pytest

from helpers.errors import InvalidRequest
from helpers.submission.inventory import Inventory, NodeGroup, Partition
from helpers.submission.placement import place
from helpers.submission.request import read_request


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
    ("gpus", "hint"),
    [(5, "gpus=4 or gpus=6"), (7, "gpus=6 or gpus=8"), (16, "gpus=8"), ("a100:5", 'gpus="a100:4" or gpus="a100:6"')],
)
def test_gpus_that_cannot_be_spread_are_answered_with_the_nearest_that_can(gpus: int | str, hint: str) -> None:
    """Five on nodes of four need five nodes with one each; there are two."""
    with pytest.raises(InvalidRequest, match="GPUs, the same number on each node, take ") as refused:
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


@pytest.mark.parametrize(("gpus", "hours"), [("a100:2", 2.0), ("2g.10gb:1", 2 / 7), ("1g.5gb:1", 1 / 7)])
def test_a_slice_costs_the_part_of_a_gpu_that_it_is(gpus: str, hours: float) -> None:
    """Who takes two sevenths leaves five to others."""
    fit, _ = place(read_request(gpus=gpus, time="1h"), cluster(gpus={"a100": 4, "2g.10gb": 2, "1g.5gb": 2}))
    assert fit.gpu_hours == pytest.approx(hours)
