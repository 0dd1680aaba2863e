"""A project folder for each test, and a Slurm that has no controller and leaves every choice open."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.submission.clusters import slurm as slurm_cluster
from helpers.submission.clusters.slurm import SlurmCluster
from tests.cluster.client import foreign_variables
from tests.gpu_driver.cards import cards  # noqa: F401 -- a fixture


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which takes the runs."""
    for name in [*foreign_variables(), "HELPERS_RUNS", "HELPERS_RUN"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _open_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_cluster, "current_inventory", lambda _conf: SimpleNamespace(cluster="demo"))
    monkeypatch.setattr(SlurmCluster, "settle", lambda _self, request: request.settle())
