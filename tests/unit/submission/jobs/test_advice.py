"""What to ask for after a job that had too little memory or time: more, and no more than there is."""

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.errors import ClusterUnreachable
from helpers.runtime.files import write_json
from helpers.runtime.run.folder import RunFolder
from helpers.submission.inventory.inventory import Inventory
from helpers.submission.jobs import advice
from helpers.submission.jobs.advice import largest_memory_mb, memory_given_mb, more_memory, more_time
from tests.unit.submission.inventory.test_placement import cluster
from tests.unit.submission.jobs.test_endings import DESCRIPTION


@pytest.mark.parametrize(
    ("given", "largest", "asked"),
    [(2048, 17500, 'mem="4G"'), (2048, None, 'mem="4G"'), (12288, 16384, 'mem="16G"'), (500, 16384, 'mem="1000M"')],
)
def test_twice_as_much_is_asked_for_if_a_node_has_it(given: int, largest: int | None, asked: str) -> None:
    """A hint that Slurm would refuse is none."""
    assert f"ask for more: {asked};" in more_memory(given, largest)


def test_who_had_a_whole_node_is_not_told_to_ask_for_more() -> None:
    """There is no more."""
    assert "no node of its partition has more (16G)" in more_memory(16000, 16384)


def test_where_the_limit_is_not_known_an_amount_is_an_example() -> None:
    """The cluster's default is often a few gigabytes for each CPU."""
    assert 'mem="8G"' in more_memory(None, 16384)


def test_the_limit_is_what_was_asked_for_else_what_slurm_has_told_the_job(tmp_path: Path) -> None:
    """Who asked for nothing got the cluster's default, or a share."""
    unasked = replace(DESCRIPTION, resources={})
    assert memory_given_mb(DESCRIPTION, str(tmp_path)) == 8192
    assert memory_given_mb(unasked, str(tmp_path)) is None
    write_json(RunFolder(tmp_path).provenance, {"given": {"SLURM_MEM_PER_NODE": "3000"}})
    assert memory_given_mb(unasked, str(tmp_path)) == 3000


def test_the_most_is_that_of_the_jobs_own_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cluster's nodes, and a silent controller, say nothing."""
    monkeypatch.setattr(advice, "current_inventory", lambda _conf: cluster(mem_mb=16000))
    there = replace(DESCRIPTION, place="demo", resources={"partition": "gpu"})
    assert largest_memory_mb(there) == 16000
    assert largest_memory_mb(replace(there, place="another")) is None
    assert largest_memory_mb(replace(there, resources={})) is None
    assert largest_memory_mb(replace(there, cluster="local")) is None


@pytest.mark.parametrize(("had_min", "asked"), [(60, 'time="2h"'), (400, 'time="10h"'), (600, ""), (None, 'time="2h"')])
def test_twice_the_time_is_asked_for_if_the_partition_allows_it(
    monkeypatch: pytest.MonkeyPatch, had_min: int | None, asked: str
) -> None:
    """Its limit is ten hours, and an hour for who asks for none."""
    monkeypatch.setattr(advice, "current_inventory", lambda _conf: cluster())
    there = replace(DESCRIPTION, place="demo", resources={"partition": "gpu"}, time_min=had_min)
    assert more_time(there) == asked


def test_a_silent_controller_does_not_hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint is worth less than the error that it belongs to."""

    def silent(_conf: str | None) -> Inventory:
        raise ClusterUnreachable("no answer")

    monkeypatch.setattr(advice, "current_inventory", silent)
    assert largest_memory_mb(replace(DESCRIPTION, resources={"partition": "gpu"})) is None
