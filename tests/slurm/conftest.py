"""Give the tests in this folder a real Slurm, started once for all of them.

Where it cannot be started these tests are skipped with the reason. With HELPERS_REQUIRE_SLURM=1, as in CI,
that is a failure: a suite that has skipped its most important part must not look green.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, ClusterSettings, why_unavailable
from tests.cluster.client import foreign_variables
from tests.cluster.cluster import remove_abandoned

HERE = Path(__file__).parent

ClusterWith = Callable[..., Cluster]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test in this folder, and keep them in one process where pytest-xdist would spread them."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)
            if config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("slurm"))


@pytest.fixture(scope="session")
def cluster_with() -> Iterator[ClusterWith]:
    """Return a function that gives the cluster with these settings, started at the first call for them."""
    if reason := why_unavailable():
        if os.environ.get("HELPERS_REQUIRE_SLURM") == "1":
            pytest.fail(f"HELPERS_REQUIRE_SLURM=1, but: {reason}", pytrace=False)
        pytest.skip(reason)
    remove_abandoned()
    started: dict[ClusterSettings, Cluster] = {}
    with ExitStack() as running:

        def give(**settings: Any) -> Cluster:
            wanted = ClusterSettings(**settings)
            if wanted not in started:
                started[wanted] = running.enter_context(Cluster(wanted))
            return started[wanted]

        yield give


@pytest.fixture(scope="session")
def cluster(cluster_with: ClusterWith) -> Cluster:
    """The cluster with the default settings."""
    return cluster_with()


@pytest.fixture
def slurm_env(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make this process a client of the default cluster, and of no other, for one test."""
    for name in foreign_variables():
        monkeypatch.delenv(name)
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return cluster.environment
