"""The inventory is asked for once in ten minutes, and never at the price of a submission."""

import os
import time
from pathlib import Path

import pytest

from helpers.submission.inventory import cache
from helpers.submission.inventory.cache import LONGEST_AGE_S, current_inventory
from helpers.submission.inventory.inventory import Inventory, NodeGroup, Partition

FOUND = Inventory(
    cluster="demo",
    partitions=(
        Partition(
            name="gpu", is_default=True, is_up=True, max_time_min=60, default_time_min=None, max_nodes=None,
            exclusive=False, preemptible=False, accounts=("a",), groups=("b",), billing={"cpu": 1.0},
            nodes=(NodeGroup(count=2, usable=1, cpus=8, mem_mb=1000, gpus={"a100": 4}, features=("x", "y")),),
        ),
    ),
    max_array_size=1001,
    requeue_allowed=True,
)  # fmt: skip


@pytest.fixture(autouse=True)
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often Slurm was asked; each question has an entry."""
    questions: list[str] = []

    def read() -> Inventory:
        questions.append("asked")
        return FOUND

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "read_inventory", read)
    return questions


def ask(slurm_conf: str = "/none/slurm.conf") -> Inventory:
    """Ask as a process of its own does."""
    current_inventory.cache_clear()
    try:
        return current_inventory(slurm_conf)
    finally:
        current_inventory.cache_clear()


def kept(tmp_path: Path) -> Path:
    return next((tmp_path / "cache").rglob("inventory-*.json"))


def test_another_process_reads_it_from_a_file(asked: list[str]) -> None:
    """All of it, as it was found."""
    assert (ask(), ask(), asked) == (FOUND, FOUND, ["asked"])


def test_it_is_asked_for_again_once_it_is_old(asked: list[str], tmp_path: Path) -> None:
    """Nodes come and go."""
    ask()
    then = time.time() - LONGEST_AGE_S - 1
    os.utime(kept(tmp_path), (then, then))
    ask()
    assert asked == ["asked", "asked"]


def test_another_configuration_is_another_cluster(asked: list[str], tmp_path: Path) -> None:
    """So is the same file with other words in it."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=a\n")
    ask(str(conf))
    ask()
    os.utime(conf, (1, 1))
    ask(str(conf))
    assert len(asked) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster": "demo"}'])
def test_a_file_that_is_none_is_asked_over(text: str, asked: list[str], tmp_path: Path) -> None:
    """Cut off by a full disk, or of another version."""
    ask()
    kept(tmp_path).write_text(text)
    assert ask() == FOUND
    assert asked == ["asked", "asked"]


def test_a_home_without_room_keeps_no_job_from_the_queue(tmp_path: Path) -> None:
    """There is a file where the folder should be."""
    (tmp_path / "cache").write_text("")
    assert ask() == FOUND
