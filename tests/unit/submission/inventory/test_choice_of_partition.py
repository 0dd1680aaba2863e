"""Where a job goes that names no partition, and what it gets there."""

from dataclasses import replace
from typing import Any

import pytest

from helpers.errors import InvalidRequest
from helpers.submission.inventory.inventory import Inventory, NodeGroup, Partition
from helpers.submission.inventory.placement import place
from helpers.submission.resources.request import read_request
from helpers.submission.resources.resources import Resources

NODES = (NodeGroup(count=8, usable=8, cpus=64, mem_mb=512000, gpus={"a100": 4}),)
BIG_NODES = (NodeGroup(count=2, usable=2, cpus=128, mem_mb=1024000, gpus={"h100": 8}),)
GPU = Partition(
    name="gpu", is_default=True, is_up=True, max_time_min=1440, default_time_min=60, max_nodes=None,
    exclusive=False, preemptible=False, nodes=NODES,
)  # fmt: skip
LONG = replace(GPU, name="long", is_default=False, max_time_min=14400)
WHOLE = replace(LONG, name="whole", exclusive=True)
LOW = replace(LONG, name="low", preemptible=True)
THEIRS = replace(LONG, name="theirs", accounts=("physics",))
DEBUG = replace(GPU, name="debug", is_default=False, max_time_min=30, nodes=BIG_NODES)


def chosen(*partitions: Partition, **asked: Any) -> tuple[str, str]:
    """Return which partition a job goes to, and why."""
    fit, why = place(read_request(**asked), cluster(*partitions))
    return fit.partition.name, why


def settled(*partitions: Partition, **asked: Any) -> Resources:
    """Return what a job asks for in the end."""
    request = read_request(**asked)
    return place(request, cluster(*partitions))[0].settle(request)


def cluster(*partitions: Partition) -> Inventory:
    return Inventory(cluster="demo", partitions=partitions, max_array_size=1001, requeue_allowed=True)


def test_the_default_is_taken_where_it_serves() -> None:
    """Even where another were cheaper: it is what the site wants."""
    dear = replace(GPU, billing={"gres/gpu": 100.0})
    assert chosen(LONG, dear, gpus=1) == ("gpu", "the cluster's default")


def test_the_cheapest_that_serves_is_next() -> None:
    """Of whole nodes a job pays all, whatever part of them it wants."""
    assert chosen(GPU, WHOLE, LONG, gpus=1, time="3d") == ("long", "the cheapest that serves")
    assert chosen(GPU, WHOLE, gpus=1, time="3d") == ("whole", "the cheapest that serves")


def test_slurms_own_prices_count_where_there_are_some() -> None:
    """A billed partition may be the cheaper one, whose GPU-hours are the same."""
    cheap = replace(LONG, name="cheap", billing={"gres/gpu": 1.0})
    dear = replace(LONG, name="dear", billing={"gres/gpu": 2.0, "cpu": 1.0, "mem": 0.25})
    assert chosen(GPU, dear, cheap, gpus=1, time="3d")[0] == "cheap"


@pytest.mark.parametrize("withheld", [LOW, THEIRS, replace(THEIRS, accounts=(), groups=("staff",))])
def test_some_are_never_chosen_in_silence(withheld: Partition) -> None:
    """One whose jobs lose their place, or that is not everybody's, is named instead."""
    with pytest.raises(InvalidRequest, match=f"Only partitions that are never chosen .* {withheld.name}") as refused:
        chosen(GPU, withheld, gpus=1, time="3d")
    assert refused.value.hint == f'partition="{withheld.name}"'
    assert chosen(GPU, withheld, gpus=1, time="3d", partition=withheld.name) == (withheld.name, "asked for")


def test_an_interactive_one_is_for_jobs_that_say_that_they_are_short() -> None:
    """A job without a time would end by its limit there."""
    assert chosen(GPU, DEBUG, gpus="h100:1", time="20min")[0] == "debug"
    with pytest.raises(InvalidRequest, match="never chosen by themselves"):
        chosen(GPU, DEBUG, gpus="h100:1")


def test_one_that_takes_no_jobs_is_passed_over() -> None:
    """The default too."""
    assert chosen(replace(GPU, is_up=False), LONG, gpus=1) == ("long", "the cheapest that serves")


def test_a_job_gets_the_fair_share_of_the_node() -> None:
    """A quarter of its GPUs comes with a quarter of its CPUs and memory, so that the other three are not starved."""
    one, four = settled(GPU, gpus=1), settled(GPU, gpus=4)
    assert (one.nodes, one.processes, one.cpus, one.mem_mb) == (1, 1, 16, 128000)
    assert (four.nodes, four.processes, four.cpus, four.mem_mb) == (1, 4, 16, 512000)
    assert settled(GPU, gpus=4, processes=1).cpus == 64
    assert (settled(GPU, gpus=1, cpus=2, mem="8G").cpus, settled(GPU, gpus=1, mem="8G").mem_mb) == (2, 8192)


def test_without_gpus_the_cluster_decides_on_cpus_and_memory() -> None:
    """There is no share to speak of."""
    assert (settled(GPU).cpus, settled(GPU).mem_mb, settled(GPU).gpu_hours) == (None, None, 0)


def test_the_nodes_follow_from_the_gpus() -> None:
    """Sixteen on nodes of four are four nodes; six are two of three."""
    assert (settled(GPU, gpus=16).nodes, settled(GPU, gpus=16).processes_per_node) == (4, 4)
    assert (settled(GPU, gpus=6).nodes, settled(GPU, gpus=6).gpus.per_node(2)) == (2, "3")
    assert settled(GPU, gpus=4, nodes=4).gpus.per_node(4) == "1"


def test_the_cost_is_told_in_gpu_hours() -> None:
    """By the time that is asked for, else by the partition's; of whole nodes, all their GPUs."""
    assert settled(GPU, gpus=4, time="8h").gpu_hours == 32
    assert settled(GPU, gpus=4).gpu_hours == 4
    assert settled(GPU, WHOLE, gpus=1, time="3d").gpu_hours == 4 * 72


def test_one_attempt_of_a_long_training_takes_what_the_partition_allows() -> None:
    """``total_time`` is over all attempts."""
    assert settled(GPU, gpus=1, total_time="7d").time_min == 1440
    assert settled(GPU, gpus=1, total_time="2h").time_min == 120


def test_a_limit_that_is_in_the_way_is_named_with_what_would_run() -> None:
    """As a keyword that can be pasted."""
    with pytest.raises(InvalidRequest, match="gpu allows 1d at most") as refused:
        chosen(GPU, time="2d")
    assert refused.value.hint == 'time="1d"'
    with pytest.raises(InvalidRequest, match="There is no partition 'gpux' on demo") as refused:
        chosen(GPU, LONG, partition="gpux")
    assert refused.value.hint == 'partition="gpu"'
    with pytest.raises(InvalidRequest, match="demo has no GPUs of type 'a10'") as refused:
        chosen(GPU, gpus="a10:1")
    assert refused.value.hint == 'gpus="a100:1"'


def test_of_whole_gpus_and_slices_a_whole_one_is_asked_for_by_its_type() -> None:
    """For "any GPU" Slurm may give a slice."""
    mixed = replace(GPU, nodes=(replace(NODES[0], gpus={"a100": 3, "2g.10gb": 3}),))
    assert settled(mixed, gpus=1).gpus.kind == "a100"
    assert settled(GPU, gpus=1).gpus.kind is None
