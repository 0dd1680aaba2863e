"""What a page shows as Python runs, top to bottom."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.submission.clusters.choice import slurm_is_configured
from tests.docs.pages import PAGES, name_of, needs_slurm, programs_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.conftest import ClusterWith

LOCAL = [page for page in PAGES if programs_of(page) and not needs_slurm(page)]
ON_SLURM = [page for page in PAGES if programs_of(page) and needs_slurm(page)]


def run(page: Path, folder: Path, environment: dict[str, str]) -> None:
    for number, program in enumerate(programs_of(page)):
        script = folder / f"page_{number}.py"
        script.write_text(program, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script.name], cwd=folder, env=environment, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{name_of(page)} (line numbers are the page's)\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", LOCAL, ids=name_of)
def test_python_runs_on_this_machine(page: Path, tmp_path: Path, reader: dict[str, str]) -> None:
    """An example that does not run teaches the wrong thing."""
    if slurm_is_configured({"PATH": reader["PATH"]}):
        pytest.skip("this machine belongs to a cluster: the examples would queue jobs on it")
    run(page, tmp_path, reader)


@pytest.mark.slurm
@pytest.mark.parametrize("page", ON_SLURM, ids=name_of)
def test_python_runs_on_slurm(page: Path, tmp_path: Path, reader: dict[str, str], cluster_with: ClusterWith) -> None:
    """The same for what only a cluster can do; its GPUs are fake, so training on the CPU is allowed."""
    quick = cluster_with(accounting=False)
    run(page, tmp_path, reader | quick.environment | {"HELPERS_ALLOW_CPU": "1"})
