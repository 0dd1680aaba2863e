"""A run folder as a submission leaves it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.run.description import Description, write_description
from helpers.runtime.run.folder import RunFolder
from tests.gpu_driver.cards import cards  # noqa: F401 -- a fixture

DEFAULTS: dict[str, Any] = {
    "run_id": "1",
    "name": "net",
    "function": "models.train",
    "arguments": [],
    "cluster": "slurm",
    "place": "demo",
    "python": "/env/bin/python",
    "sys_path": [],
    "directory": "/",
    "processes": 2,
    "nodes": 1,
    "gpus": 0,
    "time_min": 60,
    "warning_s": 90,
    "requeue": "auto",
    "has_checkpoint_method": False,
}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """The run folder."""
    run = RunFolder(tmp_path / "runs" / "net" / "1")
    run.create()
    write_description(run, Description(**DEFAULTS))
    return run


@pytest.fixture
def described() -> Callable[..., Description]:
    """Return a function that makes a description with these differences."""
    return lambda **differences: Description(**{**DEFAULTS, **differences})
