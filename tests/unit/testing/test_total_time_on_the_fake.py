"""A total over several time limits, which come when a test says so (``tests/slurm/test_time.py``: real ones)."""

import json
import time
from pathlib import Path

import pytest

from helpers import TimeLimitReached, current_run, submit
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from helpers.testing import FakeSlurm
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240
DONE_S = 57  # of each attempt's minute, when its function is called; the rest is for its end, on a busy machine too

# What a site's plugin answers where users may not requeue.
DENIED = """#!/bin/sh
if [ "$1" = requeue ]; then
    echo "Job has been denied: requeue is not allowed here" >&2
    exit 1
fi
PATH=${PATH#*:} exec scontrol "$@"
"""


def save_and_leave_late(total: int) -> int:
    """Do a step an attempt; date the attempt's start back, so that it has nearly come to its limit."""
    run = current_run()
    assert run.files is not None
    lines = read_ledger(run.files)
    lines[-1]["time"] = time.time() - DONE_S
    run.files.ledger.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return functions.save_and_leave(total)


@pytest.mark.parametrize("requeue", ["by requeue", "by successors"])
def test_a_total_time_holds_over_attempts_of_a_shorter_limit(
    fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requeue: str
) -> None:
    """As many attempts as it takes, and no more; the checkpoint stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    shim = tmp_path / "bin" / "scontrol"
    shim.parent.mkdir()
    shim.write_text(DENIED)
    shim.chmod(0o755)
    setup = [f"export PATH={shim.parent}:$PATH"] if requeue == "by successors" else []
    job = submit(save_and_leave_late, 100, time=1, total_time="3min", setup=setup)
    for step in (1, 2, 3):
        wait_for((job.folder / f"checkpoints/step-{step:08}").exists, lambda: job.reason)
        fake_slurm.reach_time_limit(job, warning_s=30)
    error = job.exception(PATIENCE_S)
    assert isinstance(error, TimeLimitReached)
    assert "its total_time of 3 min is used up; saved at step 3" in error.message
    ends = [(line["state"], line["cause"]) for line in read_ledger(RunFolder(job.folder)) if line["event"] == "end"]
    assert ends == [("REQUEUED", "timeout"), ("REQUEUED", "timeout"), ("TIMEOUT", "total_time")]
    ids = {line["job_id"] for line in read_ledger(RunFolder(job.folder)) if line["event"] == "start"}
    assert len(ids) == (1 if requeue == "by requeue" else 3)
