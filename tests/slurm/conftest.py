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
from typer.testing import CliRunner, Result

from tests.cluster import Cluster, ClusterSettings, why_unavailable
from tests.cluster.client import foreign_variables
from tests.cluster.cluster import remove_abandoned
from tests.slurm.both_slurms import both, fake  # noqa: F401 -- fixtures

HERE = Path(__file__).parent

ClusterWith = Callable[..., Cluster]
Command = Callable[..., Result]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)


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


def become_client(cluster: Cluster, patch: pytest.MonkeyPatch, folder: Path | None = None) -> None:
    """Make this process a client of a cluster, and of no other, in a folder of its own where one is given."""
    for name in foreign_variables():
        patch.delenv(name)
    for name, value in cluster.environment.items():
        patch.setenv(name, value)
    if folder is not None:
        patch.chdir(folder)
        patch.setenv("PWD", str(folder))


@pytest.fixture
def slurm_env(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make this process a client of the default cluster, and of no other, for one test."""
    become_client(cluster, monkeypatch)
    return cluster.environment


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process a client of the default cluster, in a folder of its own, for one test."""
    become_client(cluster, monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def module_client(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for all tests of a module, which look at jobs that were submitted at once."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("project")
        become_client(cluster, patch, folder)
        yield folder


@pytest.fixture
def command() -> Command:
    """Return a function that runs ``helpers`` with these words, in this process."""
    from helpers.cli.main import app

    return lambda *words: CliRunner().invoke(app, list(words))
