"""GPUs, counted from what ``scontrol`` and ``nvidia-smi`` print."""

from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.submission import gpu_usage
from helpers.submission.gpu_usage import GpuCount, OwnGpu, count_cluster_gpus, list_own_gpus

# Slurm 22.05.8, shortened: one node half used, one full of CPUs, one drained, one without GPUs
NODES = """\
NodeName=g1 Arch=x86_64 CPUAlloc=2 CPUEfctv=8 CPUTot=8 Gres=gpu:a100:4,gpu:2g.10gb:2 GresDrain=N/A GresUsed=gpu:a100:1(IDX:0),gpu:2g.10gb:0(IDX:N/A) OS=Linux 6.1 #1 SMP State=MIXED Partitions=gpu,low
NodeName=g2 CPUAlloc=8 CPUTot=8 Gres=gpu:a100:4(S:0-1) GresUsed=gpu:a100:1(IDX:0) State=ALLOCATED Partitions=gpu
NodeName=g3 CPUAlloc=0 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:0(IDX:N/A) State=IDLE+DRAIN Partitions=gpu
NodeName=c1 CPUAlloc=0 CPUTot=8 Gres=(null) State=IDLE Partitions=cpu,gpu
"""  # noqa: E501 -- as it is printed


def test_gpus_are_counted_by_partition_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free is what a job could get: not where a node is drained, nor where it has no CPU left."""
    monkeypatch.setattr(gpu_usage, "ask_slurm", lambda _: NODES)
    assert count_cluster_gpus() == [
        GpuCount(partition="gpu", kind="2g.10gb", nodes=1, total=2, used=0, down=0, free=2, most_free=2),
        GpuCount(partition="gpu", kind="a100", nodes=3, total=12, used=2, down=4, free=3, most_free=3),
        GpuCount(partition="low", kind="2g.10gb", nodes=1, total=2, used=0, down=0, free=2, most_free=2),
        GpuCount(partition="low", kind="a100", nodes=1, total=4, used=1, down=0, free=3, most_free=3),
    ]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of ``PATH``."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "nvidia-smi"


def test_without_slurm_it_is_this_machine(driver: Path) -> None:
    """A GPU that is cut into slices has no figure for how busy it is."""
    driver.write_text("#!/bin/sh\necho '0, NVIDIA H200, 143771, 1024, 7'\necho '1, NVIDIA H200, 143771, 0, [N/A]'\n")
    driver.chmod(0o755)
    assert list_own_gpus() == [
        OwnGpu(index=0, name="NVIDIA H200", memory_mb=143771, used_mb=1024, busy_percent=7),
        OwnGpu(index=1, name="NVIDIA H200", memory_mb=143771, used_mb=0, busy_percent=None),
    ]


def test_a_machine_without_a_driver_has_none(driver: Path) -> None:
    """A laptop."""
    assert not driver.exists()
    assert list_own_gpus() == []


def test_a_driver_that_does_not_work_says_so(driver: Path) -> None:
    """No GPU and a broken driver are two things."""
    driver.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    driver.chmod(0o755)
    with pytest.raises(InvalidRequest, match="library version mismatch"):
        list_own_gpus()
