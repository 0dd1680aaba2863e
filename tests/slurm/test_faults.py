"""Whatever ends a job early costs nothing with a warning, at most ``save_every`` without, and nothing runs twice.

The jobs of a cluster run at once; see ``disturbances``. A time limit and a preemption of the whole template are in
``test_survival``, the other ways of tracking processes in ``test_faults_full``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.slurm.disturbances import SETTINGS, ClaimsOfEveryEnding, disturb_all, nothing_is_left_running
from tests.slurm.slow_start import assert_costs_nothing_at_the_start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.conftest import ClusterWith
    from tests.slurm.faults import Outcome

pytestmark = pytest.mark.timeout(900)  # the first test waits for all the jobs


@pytest.fixture(scope="module")
def outcomes(cluster_with: ClusterWith, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What came of every disturbance."""
    return disturb_all(cluster_with, tmp_path_factory.mktemp("faults"), "cgroup")


class TestEveryEnding(ClaimsOfEveryEnding):
    """Slurm signals the process that it has started, and no other."""


def test_nothing_is_left_running(outcomes: dict[str, Outcome], cluster_with: ClusterWith) -> None:
    """Neither a job nor a process of one."""
    assert outcomes
    nothing_is_left_running(cluster_with(**SETTINGS))


def test_a_signal_that_comes_while_python_starts_costs_nothing(cluster_with: ClusterWith, tmp_path: Path) -> None:
    """It ended the interpreter, before anybody could listen."""
    assert_costs_nothing_at_the_start(cluster_with, "cgroup", tmp_path, "USR2")
