"""A run on a full disk cannot say how it ended; who waits for it is told so."""

import errno
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from helpers import JobLost, submit
from helpers.submission.jobs import endings, watcher
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240


def refuse(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_job_here_that_left_no_word_is_lost_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state stayed RUNNING after that, and the hint was Slurm's ``sacct -j local-2729``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watcher, "SETTLE_S", 0.2)
    monkeypatch.setattr(watcher, "write_status", refuse)
    monkeypatch.setattr(endings.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    job = submit(functions.sleep, 600, cluster="local")
    wait_for((job.folder / "attempts" / "0" / "started-0").exists, job.logs)
    os.killpg(int(job.id.removeprefix("local-")), signal.SIGKILL)
    error = job.exception(PATIENCE_S)
    assert isinstance(error, JobLost)
    assert f"its process has ended and left no word, and the disk of {job.folder} is full." in error.message
    assert (error.hint, job.state) == (f"helpers logs {job.id}; df -h {job.folder}", "LOST")
