"""The pytest plugin: fixtures that give a test a Slurm of its own.

pytest finds it by itself, through the entry point that comes with the library; nothing is loaded, and nothing
changes, before a test asks for a fixture.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.testing.fake_slurm import FakeSlurm
    from helpers.testing.settings import Settings

_FOREIGN = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_", "SCONTROL_")
_ASK_EVERY_S = 0.2
_SETTLE_S = 0.3  # no network file system is in the way
_BUSY_DELAYS_S = (0.05,)


@pytest.fixture
def fake_slurm_settings() -> Settings:
    """What ``fake_slurm`` is made of; a module's or a conftest's own fixture of this name changes it."""
    from helpers.testing.settings import Settings

    return Settings()


@pytest.fixture
def fake_slurm(fake_slurm_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    """Make this test the client of a Slurm of its own, which ends with it and leaves nothing behind.

    Runs go to the test's ``tmp_path``, and a job's end is noticed within a fraction of a second.
    """
    from helpers.submission.clusters import slurm_executor
    from helpers.submission.jobs import watcher
    from helpers.testing.fake_slurm import FakeSlurm

    for name in [name for name in os.environ if name.startswith((*_FOREIGN, "HELPERS_RUN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(watcher, "_ASK_EVERY_S", _ASK_EVERY_S)
    monkeypatch.setattr(watcher, "SETTLE_S", _SETTLE_S)
    monkeypatch.setattr(slurm_executor, "_BUSY_DELAYS_S", _BUSY_DELAYS_S)
    slurm = FakeSlurm(fake_slurm_settings)
    slurm.start()
    try:
        for name, value in slurm.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HELPERS_RUNS", str(tmp_path / "runs"))
        yield slurm
    finally:
        _let_go(slurm)
        slurm.stop()


def _let_go(slurm: FakeSlurm) -> None:
    """Stop asking for jobs whose Slurm goes away, and drop what was remembered of it."""
    from helpers.submission.inventory.cache import _cache_file, current_inventory
    from helpers.submission.jobs.watcher import watcher

    cache = _cache_file(str(slurm.folder / "slurm.conf"))
    cache.unlink(missing_ok=True)
    current_inventory.cache_clear()
    known = {job.id for job in slurm.jobs()}
    with watcher._lock:  # noqa: SLF001 -- the one thing that must end with the cluster
        watcher._watched = [entry for entry in watcher._watched if entry.job.id not in known]  # noqa: SLF001
