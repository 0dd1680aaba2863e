"""Give the documentation's commands a place to run: an empty folder, a home, and where asked for a real Slurm."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cluster.client import client_environment
from tests.slurm.conftest import cluster, cluster_with, slurm_env

__all__ = ["cluster", "cluster_with", "reader", "slurm_env"]


@pytest.fixture
def reader(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who reads the page: a home, this Python, no cluster, nothing of ours."""
    own = {name: value for name, value in client_environment().items() if not name.startswith(("HELPERS_", "PYTHON"))}
    return own | {
        "HOME": str(tmp_path),
        "PWD": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]]),
        "VIRTUAL_ENV": sys.prefix,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
