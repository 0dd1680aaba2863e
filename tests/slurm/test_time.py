"""Time limits on a real Slurm: one that an administrator has changed, and a total over several of them."""

from pathlib import Path
from typing import Any

import pytest

from helpers import Job, TimeLimitReached, submit
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from tests.cluster import Cluster
from tests.slurm.test_faults_refused import DENIED
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 120


pytestmark = pytest.mark.usefixtures("client")


def ends(job: Job[Any]) -> list[tuple[str, str]]:
    lines = read_ledger(RunFolder(job.folder))
    return [(line["state"], line["cause"]) for line in lines if line["event"] == "end"]


def test_a_limit_that_was_shortened_is_the_time_limit(cluster: Cluster) -> None:
    """An administrator empties the node: by the limit of the submission, the stop looked like a preemption."""
    job = submit(functions.save_and_leave, 2, time=30)
    wait_for(lambda: list(job.folder.glob("checkpoints/step-*")))
    cluster.run("scontrol", "update", f"JobId={job.id}", "TimeLimit=1")
    assert job.result(PATIENCE_S) == 2
    assert ends(job) == [("REQUEUED", "timeout"), ("COMPLETED", "returned")]


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("requeue", ["by requeue", "by successors"])
def test_a_total_time_holds_over_attempts_of_a_shorter_limit(cluster: Cluster, client: Path, requeue: str) -> None:
    """As many attempts as it takes, and no more: the last one's limit is what is left of the total."""
    shim = client / "bin" / "scontrol"
    shim.parent.mkdir()
    shim.write_text(DENIED)
    shim.chmod(0o755)
    setup = [f"export PATH={shim.parent}:$PATH"] if requeue == "by successors" else []
    job = submit(functions.save_and_leave, 1000, time=2, total_time="3min", setup=setup)
    error = job.exception(800)
    assert isinstance(error, TimeLimitReached)
    assert "its total_time of 3 min is used up; saved at step" in error.message
    states = [state for state, _ in ends(job)]
    assert (states[:-1], states[-1]) == (["REQUEUED"] * (len(states) - 1), "TIMEOUT")
    starts = [line for line in read_ledger(RunFolder(job.folder)) if line["event"] == "start"]
    ids = {line["job_id"] for line in starts}
    assert len(ids) == (1 if requeue == "by requeue" else len(starts))
    assert len(starts) >= 2
