"""The probe tells what this very Slurm does with signals."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cluster import Cluster

ROOT = Path(__file__).parents[2]


def test_the_probe_sees_who_is_signalled(cluster: Cluster, slurm_env: dict[str, str], tmp_path: Path) -> None:
    """Under proctrack/cgroup it is the process that Slurm has started, and no other."""
    done = subprocess.run(
        [sys.executable, "-m", "helpers.cli", "doctor", "signals", "--json"],
        cwd=tmp_path,
        env={**os.environ, **slurm_env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    seen = {process: set(signals) for process, signals in report["seen"].items()}
    everywhere = cluster.proctrack != "cgroup"
    both = {"USR2", "TERM"}
    assert seen == {"function": both, "forked": both if everywhere else set(), "program": both if everywhere else set()}
    assert report["settings"]["KillWait"] == f"{cluster.settings.kill_wait} sec"
    assert report["partitions"]["low"]["GraceTime"] == "0"
