"""How much memory was in use, by the best witness there is."""

import os
from pathlib import Path

import pytest

from helpers.runtime.run.status import Peak
from helpers.runtime.usage.peak_memory import peak_in_accounting, peak_on_this_node

V1 = "4:cpuset:/slurm_gpu1/uid_0/job_7/step_batch\n3:memory:/slurm_gpu1/uid_0/job_7/step_batch/task_0\n0::/\n"
V2 = "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n"


@pytest.mark.parametrize(
    ("groups", "counter"),
    [
        (V1, "memory/slurm_gpu1/uid_0/job_7/memory.max_usage_in_bytes"),
        (V2, "system.slice/slurmstepd.scope/job_7/memory.peak"),
    ],
)
def test_the_kernels_count_of_the_whole_job_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, counter: str
) -> None:
    """That of the step is gone with the step; of the batch script's own step it says nothing."""
    monkeypatch.setenv("SLURMD_NODENAME", "gpu1")
    (tmp_path / "groups").write_text(groups)
    (tmp_path / counter).parent.mkdir(parents=True)
    (tmp_path / counter).write_text("209715200\n")
    assert peak_on_this_node(tmp_path / "groups", tmp_path) == Peak(mem_mb=200, source="cgroup", node="gpu1")


@pytest.mark.parametrize("groups", ["0::/\n", "0::/user.slice/user-0.slice/session-3.scope\n", V1, V2])
def test_without_a_count_nothing_is_said(tmp_path: Path, groups: str) -> None:
    """The kernel is older than the counter, or Slurm does not limit memory by cgroups."""
    (tmp_path / "groups").write_text(groups)
    assert peak_on_this_node(tmp_path / "groups", tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("printed", "peak"),
    [
        ("|\n|\n13412K|gpu1\n1.5G|gpu2\n", Peak(mem_mb=1536, source="accounting", node="gpu2")),
        ("0|gpu1\n", Peak(mem_mb=0, source="accounting", node="gpu1")),
        ("|\n", None),
    ],
)
def test_the_accounting_tells_the_largest_of_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, peak: Peak | None
) -> None:
    """Where the node has no count of its own."""
    monkeypatch.setattr("helpers.runtime.usage.peak_memory._RETRY_DELAYS_S", ())
    _sacct(tmp_path, monkeypatch, f"printf '{printed}'")
    assert peak_in_accounting("7") == peak


def test_without_accounting_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most sites that have none say so at once."""
    monkeypatch.setattr("helpers.runtime.usage.peak_memory._RETRY_DELAYS_S", (3600.0,))
    _sacct(tmp_path, monkeypatch, "exit 1")
    assert peak_in_accounting("7") is None


def _sacct(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "sacct").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
