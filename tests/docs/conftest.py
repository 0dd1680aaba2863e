"""Give the documentation's commands a place to run: an empty folder, a home, and where asked for a real Slurm."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cluster.client import client_environment
from tests.slurm.conftest import cluster_with

__all__ = ["cluster_with", "reader"]


@pytest.fixture
def reader(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of somebody who reads the page: a home, this Python, no cluster, nothing of ours."""
    own = {name: value for name, value in client_environment().items() if not name.startswith(("HELPERS_", "PYTHON"))}
    return own | {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path_factory.mktemp("tmp")),  # a short name: sockets are made in it
        "PWD": str(tmp_path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]]),
        "VIRTUAL_ENV": sys.prefix,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
