"""Submit jobs that end in every way there is, wait for all, and pickle what their caller got.

A process of its own for each cluster: the client's Slurm is that of its environment.
Usage: ``python -m tests.slurm.endings_driver OUTPUT``; run it in the folder that takes the runs.
"""

import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from helpers import Job, submit
from tests.unit.submission import functions

PATIENCE_S = 120


def main(output: Path) -> None:
    """Submit, cancel where that is the test, wait, write."""
    begun = time.time()
    jobs = submit_all()
    ended: dict[str, float] = {}
    for name, job in jobs.items():
        job.add_done_callback(lambda _, name=name: ended.setdefault(name, time.time() - begun))
    jobs["cancelled pending"].cancel()
    for name in ("cancelled running", "cancelled with a handler", "batch script killed"):
        wait_until_running(jobs[name])
    jobs["cancelled running"].cancel()
    subprocess.run(["scancel", jobs["cancelled with a handler"].id], check=True)
    subprocess.run(["scancel", "--batch", "--signal=KILL", jobs["batch script killed"].id], check=True)
    records = {name: record(job) for name, job in jobs.items()}
    output.write_bytes(pickle.dumps({name: {**values, "after_s": ended[name]} for name, values in records.items()}))


def submit_all() -> dict[str, Job[Any]]:
    """Return the jobs by what happens to them; the one that takes a minute comes first."""
    return {
        "time limit": submit(functions.sleep, 600, time=1),
        "time limit with a handler": submit(functions.exit_on_sigterm, time=1),
        "raised": submit(functions.print_and_raise),
        "cannot be rebuilt": submit(functions.raise_two_arguments),
        "sys.exit": submit(functions.leave_by_exit, 3),
        "exited": submit(functions.leave_at_once, 5, processes=2),
        "killed": submit(functions.kill_self),
        "out of memory": submit(functions.fill_memory, 600, mem="200M"),
        "rank 1 raised": submit(functions.fail_in_rank_one, "raise", processes=2),
        "rank 1 killed": submit(functions.fail_in_rank_one, "kill", processes=2),
        "set-up": submit(functions.add, 1, setup=["module load cuda"]),
        "not saved": submit(functions.return_a_lock),
        "cancelled pending": submit(functions.add, 1, slurm={"begin": "now+1hour"}),
        "cancelled running": submit(functions.sleep, 600),
        "cancelled with a handler": submit(functions.exit_on_sigterm),
        "batch script killed": submit(functions.sleep, 600),
        "returned": submit(functions.add, 1, 2),
    }


def wait_until_running(job: Job[Any]) -> None:
    """Return when the function has been called."""
    deadline = time.monotonic() + PATIENCE_S
    while not list(job.folder.glob("attempts/0/started-*")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{job} does not start: {job.state} {job.reason}")
        time.sleep(0.1)
    time.sleep(0.5)  # for the function's own handler


def record(job: Job[Any]) -> dict[str, Any]:
    """Return what the caller got."""
    error = job.exception(PATIENCE_S)
    controller = subprocess.run(
        ["scontrol", "--oneliner", "show", "job", job.id], capture_output=True, text=True, check=False
    )
    return {
        "error": error,
        "cause": str(error.__cause__) if error else "",
        "id": job.id,
        "state": job.state,
        "logs": job.logs(),
        "controller": controller.stdout,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
