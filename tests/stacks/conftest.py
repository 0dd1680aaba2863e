"""Give the tests of other stacks the real Slurm, and keep them out of all runs but ``make test-stacks``."""

from pathlib import Path

import pytest

from tests.slurm.conftest import client, cluster, cluster_with

__all__ = ["client", "cluster", "cluster_with"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder: each needs Slurm, too."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.stacks)
            item.add_marker(pytest.mark.slurm)
