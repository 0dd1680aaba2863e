"""What submissions and endings cost on a real Slurm, beside a bare ``sbatch`` process and beside submitit's."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Row, Times, interleave
from tests.cluster import Cluster, ClusterSettings

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 20
_SOURCE_FILES = 100
_NOTICED = Times((3.0,))
_STARTS = 7
_DEATHS = 2
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
_HELD = {"hold": True}  # the jobs wait for ever: none runs beside the measurement


def rows() -> list[Row]:
    """Measure the first submission apart, then later ones in a loop."""
    with Cluster(ClusterSettings()) as cluster, tempfile.TemporaryDirectory() as folder, _at(Path(folder)):
        os.environ.update(cluster.environment)
        _make_project(Path(folder))
        first, times = _measure(Path(folder))
        arrays = _measure_arrays(Path(folder))
        states = _measure_states()
        subprocess.run(["scancel", "--user=root"], check=True)
        starts = _measure_starts(Path(folder))
        deaths = _measure_deaths(Path(folder))
    what = "one submit, in a loop of 20"
    return [
        Row(what=what, ours=times["ours"], other=times["sbatch"], than="one bare sbatch", goal=2.0),
        Row(what=what, ours=times["ours"], other=times["submitit"], than="submitit's submit", goal=0.1),
        Row(what="array of 1000", ours=arrays["ours"], other=arrays["submitit"], than="submitit's array", goal=1.0),
        Row(what="states of 1000 jobs", ours=states["ours"], other=states["squeue"], than="one squeue", goal=2.0),
        Row(
            what="submit → function begins", ours=starts["ours"], other=starts["submitit"], than="submitit's", goal=1.0
        ),
        Row(
            what="Slurm knows of a death → caller", ours=deaths["ours"], other=_NOTICED, than="what is agreed", goal=1.0
        ),
        Row(
            what="Slurm knows of a death → caller",
            ours=deaths["ours"],
            other=deaths["submitit"],
            than="submitit's",
            goal=None,
        ),
        Row(what="first submit of a process", ours=first, other=times["sbatch"], than="one bare sbatch", goal=None),
    ]


def _make_project(folder: Path) -> None:
    """Make it a project in git, so that each submission has source to look at."""
    (folder / "pyproject.toml").write_text("[tool.helpers]\n")
    (folder / ".gitignore").write_text("/runs/\n/submitit*/\n")
    (folder / "src").mkdir()
    for number in range(_SOURCE_FILES):
        (folder / "src" / f"module_{number}.py").write_text("import math\n" * 100)
    subprocess.run(["git", "init", "--quiet", folder], check=True)


def _measure(folder: Path) -> tuple[Times, dict[str, Times]]:
    from helpers import submit

    script = folder / "bare.sh"
    script.write_text("#!/bin/bash\n#SBATCH --output=/dev/null --hold\ntrue\n")
    executor = _submitit(folder / "submitit", **_HELD)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        start = time.perf_counter()
        submit(math.sqrt, 2, slurm=_HELD)
        first = Times((time.perf_counter() - start,))
        times = interleave(
            {
                "ours": lambda: submit(math.sqrt, 2, slurm=_HELD),
                "sbatch": lambda: subprocess.run(
                    ["sbatch", "--parsable", str(script)], check=True, capture_output=True
                ),
                "submitit": lambda: executor.submit(math.sqrt, 2),
            },
            rounds=_ROUNDS,
        )
    return first, times


def _measure_arrays(folder: Path) -> dict[str, Times]:
    from helpers import submit_array

    executor = _submitit(folder / "submitit-arrays", **_HELD)
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        return interleave(
            {
                "ours": lambda: submit_array(math.sqrt, range(1000), slurm=_HELD),
                "submitit": lambda: executor.map_array(math.sqrt, range(1000)),
            },
            rounds=3,
        )


def _measure_starts(folder: Path) -> dict[str, Times]:
    """Measure from the call of submit to the first line of the function, on an idle cluster; in turn."""
    from helpers import submit

    executor = _submitit(folder / "submitit-starts")
    ways = {"ours": lambda: submit(time.time), "submitit": lambda: executor.submit(time.time)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        for number in range(1 + _STARTS):
            for name, way in ways.items():
                begun = time.time()
                began = way().result()
                if number:  # the first is not counted
                    times[name].append(began - begun)
    return {name: Times(tuple(values)) for name, values in times.items()}


def _measure_deaths(folder: Path) -> dict[str, Times]:
    """Measure from the moment at which squeue calls a job ended, whose process is gone, to the caller's exception."""
    from helpers import submit

    executor = _submitit(folder / "submitit-deaths")
    times: dict[str, list[float]] = {"ours": [], "submitit": []}
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        for _ in range(_DEATHS):
            job = submit(os._exit, 3)
            times["ours"].append(_from_slurm_to_caller(job.id, job.exception))
            other = executor.submit(os._exit, 3)
            times["submitit"].append(_from_slurm_to_caller(other.job_id, other.exception))
    return {name: Times(tuple(values)) for name, values in times.items()}


def _from_slurm_to_caller(job_id: str, wait: Callable[[], object]) -> float:
    known: list[float] = []

    def wait_and_note() -> None:
        wait()
        known.append(time.monotonic())

    waiting = threading.Thread(target=wait_and_note)
    waiting.start()
    command = ["squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T"]
    while subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() in _ALIVE:
        time.sleep(0.05)
    ended = time.monotonic()
    waiting.join()
    return max(known[0] - ended, 0.001)


def _submitit(folder: Path, **options: object):  # noqa: ANN202 -- submitit has no public name for it
    import submitit

    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(timeout_min=5, slurm_wckey="", slurm_additional_parameters=options)
    return executor


def _measure_states() -> dict[str, Times]:
    """Ask for all jobs of the arrays above, as the watcher does; and as a person would."""
    from helpers.submission.clusters.slurm_queue import observe

    listed = subprocess.run(
        ["squeue", "--noheader", "--array", "--format=%i"], check=True, capture_output=True, text=True
    )
    ids = listed.stdout.split()[:1000]
    base = ",".join({job_id.partition("_")[0] for job_id in ids})
    return interleave(
        {
            "ours": lambda: observe(ids),
            "squeue": lambda: subprocess.run(["squeue", "--array", f"--jobs={base}"], check=True, capture_output=True),
        },
        rounds=7,
    )


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
