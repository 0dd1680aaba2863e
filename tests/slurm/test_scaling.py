"""The scaling benchmark on a cluster: one job for each number of GPUs."""

import json
from pathlib import Path

import pytest

from tests.slurm.conftest import Command


def test_each_count_is_a_job_with_as_many_processes(
    client: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a fake GPU of its own, which no torch sees; the CPUs of the machine are what they share."""
    monkeypatch.setenv("HELPERS_ALLOW_CPU", "1")
    quick = ("--warmup", "1", "--rounds", "2", "--iterations", "2")
    done = command("bench", "scaling", "--gpus", "1,4", "--partition", "gpu", "--cpus", "1", "--out", "out", *quick)
    assert done.exit_code == 0, done.output
    runs = json.loads((client / "out" / "scaling.json").read_text())["runs"]
    assert [(run["gpus"], len(run["ranks"]), run["model"], run["published"]) for run in runs] == [
        (1, 1, "small", None),
        (4, 4, "small", None),
    ]
    assert all("-gpu" in rank["node"] for run in runs for rank in run["ranks"])
