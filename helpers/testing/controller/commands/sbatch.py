"""Take a submission, or refuse it in Slurm's words."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.capacity import find_place
from helpers.testing.controller.cluster import VERSION
from helpers.testing.controller.notation.hostlists import compress
from helpers.testing.controller.notation.options import UsageError, read_script, read_variables, read_words
from helpers.testing.controller.notation.times import moment
from helpers.testing.controller.refusal import Refusal
from helpers.testing.controller.submission import make_jobs

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.jobs import Job


def submit(cluster: Cluster, message: dict[str, Any]) -> tuple[list[Job], dict[str, Any]]:
    """Read what ``sbatch`` was called with; return the new jobs and the answer."""
    arguments: list[str] = message["arguments"]
    try:
        options, rest = read_words("sbatch", arguments)
        if "version" in options:
            return [], {"stdout": f"slurm-wlm {VERSION}\n"}
        if "wrap" not in options and not rest and "input" not in message:
            return [], {"wants_input": True}
        command, script = _read_script(options, rest, message)
        by_script, by_shell = read_script(script), read_variables(message["environment"])
        merged = {**by_script, **by_shell, **options}
        jobs = make_jobs(cluster, _without_opposites(merged), script, command, rest, message)
    except UsageError as error:
        return [], {"stderr": str(error), "code": error.code}
    except Refusal as refusal:
        lines = f"sbatch: error: {refusal.before}\n" if refusal.before else ""
        final = f"sbatch: error: Batch job submission failed: {refusal}\n"
        if "test-only" in message["arguments"] or "--test-only" in message["arguments"]:
            final = f"allocation failure: {refusal}\n"
        return [], {"stderr": lines + final, "code": 1}
    if "test-only" in merged:
        return [], _estimate(cluster, jobs[0])
    return jobs, _acceptance(merged, jobs)


def _without_opposites(options: dict[str, str]) -> dict[str, str]:
    """The one that came later counts, of requeue and no-requeue."""
    names = [name for name in options if name in {"requeue", "no-requeue"}]
    return {name: value for name, value in options.items() if name not in names[:-1]}


def _acceptance(options: dict[str, str], jobs: list[Job]) -> dict[str, Any]:
    number = jobs[0].array or jobs[0].number
    return {"stdout": f"{number}\n" if "parsable" in options else f"Submitted batch job {number}\n"}


def _estimate(cluster: Cluster, job: Job) -> dict[str, Any]:
    place = find_place(cluster, job.demand, without=cluster.active()) or {}
    cpus = job.demand.cpus_per_node * job.demand.nodes
    nodes = compress(place)
    text = f"sbatch: Job {job.number} to start at {moment(time.time())} using {cpus} processors on nodes {nodes}"
    return {"stderr": f"{text} in partition {job.demand.partition}\n"}


def _read_script(options: dict[str, str], rest: list[str], message: dict[str, Any]) -> tuple[str, str]:
    if "wrap" in options:
        return "(null)", f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{options['wrap']}\n"
    if not rest:
        command, script = "(null)", str(message["input"])
    else:
        command = os.path.join(message["folder"], rest[0])
        try:
            with open(command, encoding="utf-8", errors="surrogateescape") as file:
                script = file.read()
        except OSError:
            raise UsageError(f"sbatch: error: Unable to open file {rest[0]}\n", code=1) from None
    if not script:
        raise UsageError("sbatch: error: Batch script is empty!\n", code=1)
    if not script.startswith("#!"):
        raise UsageError(
            "sbatch: error: This does not look like a batch script.  The first\n"
            "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
            "sbatch: error: For instance: #!/bin/sh\n",
            code=1,
        )
    return command, script
