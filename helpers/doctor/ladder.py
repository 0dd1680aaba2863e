"""The first minute of trouble: from the environment up to a small training, each step with its cure.

A fault hides none of the steps above it that can still be taken.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from helpers.config import find_project, working_directory
from helpers.doctor.measured import measure
from helpers.doctor.step import Step, step_here
from helpers.errors import HelpersError
from helpers.project.environment.check import check_environment
from helpers.project.environment.place import Place
from helpers.project.environment.requirements import read_dependencies
from helpers.runtime.attempt.slurm import without_filters
from helpers.submission.clusters.choice import slurm_is_configured
from helpers.submission.clusters.slurm_program import check_configuration
from helpers.submission.inventory.inventory import is_unusable
from helpers.submission.submit import Executor

if TYPE_CHECKING:
    from collections.abc import Sequence


_DISTRIBUTIONS = {"helpers": "slurm-torch-helpers", "torch": "torch", "submitit": "submitit"}
_FAULTS = {"foreign-helpers", "hidden-helpers"}  # what breaks every job; the rest breaks some
_TIMEOUT_S = 30
_SLOW_S = 5.0
_JOB_MIN = 10


def climb(*, gpus: str | None = None, partition: str | None = None) -> list[Step]:
    """Take all steps, and return them.

    Args:
        gpus: What a job asks for that takes the upper steps on a compute node; None to take them here.
        partition: Of that job; None for the cluster's default.
    """
    lower = [*look_at_environment(), *look_at_slurm()]
    return [*lower, *(measure() if gpus is None else _measure_in_job(gpus, partition))]


def look_at_environment() -> list[Step]:
    """Say which Python this is, with which packages, and what is wrong with it."""
    begin = time.perf_counter()
    versions = {name: _version(distribution) for name, distribution in _DISTRIBUTIONS.items()}
    missing = [name for name in ("torch", "submitit") if not versions[name]]
    place = Place.here()
    kind = "conda" if place.is_conda else "venv" if sys.prefix != sys.base_prefix else "the system's own"
    words = [f"Python {platform.python_version()} of {sys.prefix} ({kind})"]
    words += [f"{name} {version or 'is not installed'}" for name, version in versions.items()]
    own = step_here("environment", "fault" if missing else "ok", " · ".join(words), cure=_install(missing))
    project = find_project(working_directory())
    try:
        cuda = read_dependencies(project).cuda if project is not None else ""
    except HelpersError as error:
        own, cuda = replace(own, verdict="fault", found=error.message, cure=error.hint), ""
    steps = [
        step_here("environment", "fault" if one.rule in _FAULTS else "warning", one.text, cure=one.cure)
        for one in check_environment(place, cuda=cuda, project=project)
    ]
    return [replace(own, seconds=_since(begin)), *steps]


def look_at_slurm() -> list[Step]:
    """Say whether Slurm answers, how fast, and what it has; one ok where there is none."""
    if not slurm_is_configured():
        return [step_here("slurm", "ok", "there is none here: jobs run on this machine")]
    try:
        check_configuration(os.environ.get("SLURM_CONF"))
    except HelpersError as error:
        return [step_here("slurm", "fault", error.message, cure=error.hint)]
    return [_ask_queue(), _ask_nodes(), _ask_accounting()]


def _ask_queue() -> Step:
    answer = _ask("slurm: squeue", ["squeue", "--noheader", "--user", str(os.getuid()), "--format=%i %T"])
    if answer.verdict == "fault":
        return answer
    return replace(answer, found=f"answers; jobs of yours: {len(answer.found.splitlines())}")


def _ask_nodes() -> Step:
    answer = _ask("slurm: sinfo", ["sinfo", "--noheader", "--Node", "--format=%N %t %G"])
    if answer.verdict == "fault":
        return answer
    nodes = {words[0]: words[1:] for line in answer.found.splitlines() if len(words := line.split()) > 1}
    usable = [name for name, (state, *_) in nodes.items() if not is_unusable(state)]
    with_gpus = [name for name in usable if "gpu" in " ".join(nodes[name])]
    found = f"{len(usable)} of {len(nodes)} nodes take jobs, {len(with_gpus)} of them have GPUs"
    if usable:
        return replace(answer, found=found)
    return replace(
        answer, verdict="fault", found=found, cure="sinfo --list-reasons   says why; the administrators know"
    )


def _ask_accounting() -> Step:
    if shutil.which("sacct") is None:
        return _no_accounting("there is no sacct here")
    answer = _ask("slurm: accounting", ["sacct", "--noheader", "--allocations", "--starttime=now-1hour"])
    if answer.verdict == "fault":
        return replace(_no_accounting(answer.found), seconds=answer.seconds)
    return replace(answer, found=f"answers; jobs of yours in the last hour: {len(answer.found.splitlines())}")


def _no_accounting(words: str) -> Step:
    cure = "nothing must be done: endings are read from the run folder; of a job that leaves no word, less is known"
    return step_here("slurm: accounting", "warning", words, cure=cure)


def _ask(name: str, command: Sequence[str]) -> Step:
    """Return what a command prints; a fault where it does not answer, a warning where it takes long."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=without_filters(os.environ), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        return step_here(
            name, "fault", f"{command[0]} is not on PATH", cure="module load slurm   (or the site's word for it)"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return step_here(name, "fault", f"{command[0]} does not answer: {error}", cure="scontrol ping")
    seconds = _since(begin)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        found = f"{command[0]} fails: {words[-1] if words else f'exit code {done.returncode}'}"
        return replace(step_here(name, "fault", found, cure="scontrol ping"), seconds=seconds)
    if seconds > _SLOW_S:
        slow = step_here(name, "warning", done.stdout, cure="sdiag   shows what keeps the controller busy")
        return replace(slow, seconds=seconds)
    return replace(step_here(name, "ok", done.stdout), seconds=seconds)


def _measure_in_job(gpus: str, partition: str | None) -> list[Step]:
    """Take the upper steps in a job; what keeps it from ending well is a fault of its own."""
    begin = time.perf_counter()
    try:
        executor = Executor(gpus=gpus, processes=1, time=_JOB_MIN, partition=partition, name="doctor", requeue=False)
        job = executor.submit(measure)
    except HelpersError as error:
        return [step_here("job", "fault", error.message, cure=error.hint)]
    try:
        steps = job.result()
    except KeyboardInterrupt:
        job.cancel()
        raise
    except HelpersError as error:
        return [replace(step_here("job", "fault", error.message, cure=error.hint), seconds=_since(begin))]
    found = f"{job.id} ran on {steps[0].where}: {job.folder}"
    return [replace(step_here("job", "ok", found), seconds=_since(begin)), *steps]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _install(missing: list[str]) -> str:
    return f"{sys.executable} -m pip install {' '.join(missing)}" if missing else ""


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 2)
