"""The ladder on a compute node: the job's own device, and the same table."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_job_takes_the_upper_steps_and_a_gpu_that_is_not_seen_hides_no_other(
    slurm_env: dict[str, str], tmp_path: Path
) -> None:
    """The fake GPUs of this cluster are seen by Slurm, and by no torch: as on a node whose driver is broken."""
    done = subprocess.run(
        [sys.executable, "-m", "helpers.cli", "doctor", "--gpus", "1", "--partition", "gpu", "--json"],
        cwd=tmp_path,
        env={**os.environ, **slurm_env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    steps = {step["name"]: step for step in json.loads(done.stdout)}
    verdicts = {name: step["verdict"] for name, step in steps.items() if not name.startswith("env")}
    assert verdicts == {
        "slurm: squeue": "ok",
        "slurm: sinfo": "ok",
        "slurm: accounting": "ok",
        "job": "ok",
        "device": "fault",
        "multiply": "fault",
        "all-reduce": "ok",
        "training": "fault",
    }, done.stderr
    assert (done.returncode, "-gpu" in steps["device"]["where"]) == (1, True)
    assert "1 asked for by the job, 0 seen by this process" in steps["device"]["found"]
