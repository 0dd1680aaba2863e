"""Where an interactive session goes, and how it is asked for."""

from dataclasses import replace

import pytest

from helpers import InvalidRequest
from helpers.submission.clusters import session
from helpers.submission.clusters.session import plan_session, session_command
from helpers.submission.inventory.inventory import Inventory, NodeGroup, Partition

NODES = (NodeGroup(count=2, usable=2, cpus=8, mem_mb=8000, gpus={"a100": 4}),)
GPU = Partition(
    name="gpu", is_default=True, is_up=True, max_time_min=1440, default_time_min=60, max_nodes=None,
    exclusive=False, preemptible=False, nodes=NODES,
)  # fmt: skip
INTERACTIVE = replace(GPU, name="gpu:interactive", is_default=False, max_time_min=30, default_time_min=10)


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """The partitions of the cluster, to be changed."""
    there = [GPU, INTERACTIVE]
    monkeypatch.setattr(
        session,
        "current_inventory",
        lambda _: Inventory(cluster="demo", partitions=tuple(there), max_array_size=1001, requeue_allowed=True),
    )
    monkeypatch.setenv("SHELL", "/bin/zsh")
    return there


def test_it_goes_to_the_partition_meant_for_it(partitions: list[Partition]) -> None:
    """For as long as that allows, with the fair share of the node."""
    assert len(partitions) == 2
    assert session_command(plan_session(gpus=1), []) == [
        *("srun", "--job-name=shell", "--partition=gpu:interactive", "--nodes=1", "--ntasks=1", "--cpus-per-task=2"),
        *("--mem=2000M", "--time=30", "--gpus-per-node=1"),
        *("--pty", "/bin/zsh", "-l"),
    ]


def test_a_longer_one_goes_where_a_job_would(partitions: list[Partition]) -> None:
    """The time is the person's; the partition follows."""
    assert len(partitions) == 2
    assert plan_session(time="2h").partition == "gpu"


def test_without_one_it_goes_where_a_job_would_for_an_hour(partitions: list[Partition]) -> None:
    """A forgotten shell gives its GPU back."""
    partitions.remove(INTERACTIVE)
    planned = plan_session(gpus=1)
    assert (planned.partition, planned.time_min) == ("gpu", 60)


def test_what_could_never_run_is_refused(partitions: list[Partition]) -> None:
    """Before somebody waits at an empty terminal."""
    assert len(partitions) == 2
    with pytest.raises(InvalidRequest, match="could ever run this"):
        plan_session(gpus=5)


def test_a_program_takes_the_place_of_the_shell(partitions: list[Partition]) -> None:
    """As it is; no shell reads it."""
    assert len(partitions) == 2
    assert session_command(plan_session(time=5), ["python", "-i", "a b.py"])[-4:] == ["--pty", "python", "-i", "a b.py"]
