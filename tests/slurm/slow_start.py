"""A Python whose start lasts until it is told to go on, as on a slow disk: a signal comes before anybody listens."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.slurm.disturbances import SETTINGS
from tests.slurm.faults import RANKS, WHOLE, Disturbed
from tests.slurm.faults_program import PATIENCE_S
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.settings import ProcessTracking
    from tests.slurm.conftest import ClusterWith

_SLOW_START = """
import os, sys, time
from pathlib import Path

place = Path(__file__).parent
if "helpers.runtime.rank.rank" in sys.orig_argv and not (place / "go").exists():
    (place / f"starting-{os.environ['SLURM_PROCID']}").write_text(str(os.getpid()))
    while not (place / "go").exists():
        time.sleep(0.05)
"""


def assert_costs_nothing_at_the_start(
    cluster_with: ClusterWith, proctrack: ProcessTracking, folder: Path, name: str
) -> None:
    """Send the signal while Python starts in every rank: it waits, and the attempt says why it was given up."""
    slow = folder / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(_SLOW_START)
    settings = {"setup": [f"export PYTHONPATH={slow}:$PYTHONPATH"]}
    job = Disturbed(cluster_with(**SETTINGS, proctrack=proctrack), folder / "job", settings).start()
    wait_for(lambda: len(list(slow.glob("starting-*"))) == RANKS, "Python starts", within_s=PATIENCE_S)
    pids = [int(file.read_text()) for file in slow.glob("starting-*")]
    job.cluster.run("scancel", f"--signal={name}", job.job_id)
    number = signal.Signals[f"SIG{name}"]
    wait_for(lambda: all(_is_pending(number, pid) for pid in pids), "the signal waits", within_s=PATIENCE_S)
    (slow / "go").touch()
    outcome = job.outcome()
    assert (outcome.error, outcome.value, outcome.attempts) == (None, WHOLE, [1])
    assert outcome.causes == ["preempted", "returned"]
    assert job.ledger("end")[0]["detail"] == f"asked to stop by SIG{name}, before the function was called"


def _is_pending(number: signal.Signals, pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line.split()[1] for line in status if line.startswith("ShdPnd"))
    return bool(int(mask, 16) >> (number - 1) & 1)
