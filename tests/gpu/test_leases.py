"""Leases of real GPUs: what the driver tells of them, of who computes, and what CUDA makes of a UUID."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers import submit
from helpers.runtime.gpus.nvml import list_gpus
from tests.unit.submission import gpu_functions
from tests.waiting import wait_for

pytestmark = pytest.mark.gpu
PATIENCE_S = 240
COMPUTES = """
import time, torch
kept = torch.ones(1 << 30, device="cuda")
print(1, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "HELPERS_RUN", "HELPERS_LEASE", "HELPERS_ALLOW_USED_GPUS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("HELPERS_LEASES", str(tmp_path / "leases"))


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A program without a lease that has 4 GiB on the first GPU, the only one that may be used."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", list_gpus()[0].uuid)
    with subprocess.Popen([sys.executable, "-c", COMPUTES], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "1\n"
        yield program.pid
        program.kill()


def test_the_driver_names_the_gpu_as_cuda_does() -> None:
    """A lease by another name would be none."""
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    assert any(gpu.uuid.endswith(uuid) or gpu.is_slice for gpu in list_gpus())


def test_a_job_sees_the_gpu_that_it_leased(tmp_path: Path) -> None:
    """By its UUID, and with a matrix on it."""
    assert submit(gpu_functions.multiply, gpus=1, cluster="local").result(PATIENCE_S) == 1024.0
    visible = submit(gpu_functions.hold, str(tmp_path), 0, gpus=1, cluster="local").result(PATIENCE_S)
    assert visible in {gpu.uuid for gpu in list_gpus()}


def test_a_program_without_a_lease_is_seen_and_left_alone(foreign: int, tmp_path: Path) -> None:
    """Until it ends; then the job begins."""
    job = submit(gpu_functions.hold, str(tmp_path), 0, gpus=1, cluster="local")
    wait_for(lambda: "is used without a lease by" in job.reason, lambda: job.reason, within_s=PATIENCE_S)
    os.kill(foreign, 9)
    assert job.result(PATIENCE_S) in {gpu.uuid for gpu in list_gpus()}
