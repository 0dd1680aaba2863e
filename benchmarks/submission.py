"""What one ``submit`` costs on a real Slurm, beside a bare ``sbatch`` process and beside submitit's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.timing import Row, Times, interleave
from tests.cluster import Cluster, ClusterSettings

_ROUNDS = 20
_HELD = {"hold": True}  # the jobs wait for ever: none runs beside the measurement


def nothing() -> None:
    """Be submitted."""


def rows() -> list[Row]:
    """Measure the first submission apart, then later ones in a loop."""
    with Cluster(ClusterSettings()) as cluster, tempfile.TemporaryDirectory() as folder, _at(Path(folder)):
        os.environ.update(cluster.environment)
        first, times = _measure(Path(folder))
    what = "one submit, in a loop of 20"
    return [
        Row(what=what, ours=times["ours"], other=times["sbatch"], than="one bare sbatch", goal=2.0),
        Row(what=what, ours=times["ours"], other=times["submitit"], than="submitit's submit", goal=0.1),
        Row(what="first submit of a process", ours=first, other=times["sbatch"], than="one bare sbatch", goal=None),
    ]


def _measure(folder: Path) -> tuple[Times, dict[str, Times]]:
    import submitit

    from helpers import submit

    script = folder / "bare.sh"
    script.write_text("#!/bin/bash\n#SBATCH --output=/dev/null --hold\ntrue\n")
    executor = submitit.AutoExecutor(folder=folder / "submitit", cluster="slurm")
    executor.update_parameters(timeout_min=5, slurm_wckey="", slurm_additional_parameters={"hold": True})
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        start = time.perf_counter()
        submit(nothing, slurm=_HELD)
        first = Times((time.perf_counter() - start,))
        times = interleave(
            {
                "ours": lambda: submit(nothing, slurm=_HELD),
                "sbatch": lambda: subprocess.run(
                    ["sbatch", "--parsable", str(script)], check=True, capture_output=True
                ),
                "submitit": lambda: executor.submit(nothing),
            },
            rounds=_ROUNDS,
        )
    return first, times


@contextlib.contextmanager
def _at(folder: Path):  # noqa: ANN202 -- a generator of nothing
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
