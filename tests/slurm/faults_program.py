"""What the tests of faults submit: a loop over steps that saves every ten, and waits at step 13 to be disturbed.

Usage: ``python -m tests.slurm.faults_program FOLDER SETTINGS``: submits with the settings (JSON), prints the run
folder, and pickles what its caller got into ``FOLDER/caller.pkl``.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STEPS = 20
SAVE_EVERY = 10
HELD_AT = 13
PATIENCE_S = 500


def train(folder: str) -> int:
    """Sum up the numbers of the steps; the first attempt goes on from step 13 when it is told to stop or released."""
    import torch

    from helpers import current_run
    from helpers.training import Checkpointer, distributed

    run, place = current_run(), Path(folder)
    (place / f"pid-{run.attempt}-{run.rank}").write_text(str(os.getpid()))
    with distributed(timeout="2min"):
        state = {"sum": 0, "weights": torch.zeros(1000)}
        checkpoint = Checkpointer(state, save_every=SAVE_EVERY)
        for step in checkpoint.steps(STEPS):
            with (place / f"steps-{run.rank}").open("a") as file:
                file.write(f"{time.time()} {run.attempt} {step + 1}\n")
            if run.attempt == 0 and step + 1 == HELD_AT and (place / "program").exists():
                subprocess.run(["sleep", "600"], check=True)
            while run.attempt == 0 and step + 1 == HELD_AT and not (place / "release").exists():
                if run.stop_requested() and not (place / "deaf").exists():
                    time.sleep(1)  # for the ranks to agree: steps that do nothing would all be done before
                    break
                time.sleep(0.02)
            state["sum"] += step + 1
        return state["sum"]


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Submit, wait, and write down what came."""
    from helpers import submit
    from tests.slurm import faults_program

    job = submit(faults_program.train, str(folder), **settings)
    print(job.folder, flush=True)
    error = job.exception(PATIENCE_S)
    value = None if error else job.result()
    record = {"error": error, "value": value, "state": job.state, "id": job.id, "attempt": job.attempt}
    (folder / "caller.pkl").write_bytes(pickle.dumps(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
