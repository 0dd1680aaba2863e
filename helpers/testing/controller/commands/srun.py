"""Start a program once for each task: in the job that this is called in, or in one of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.testing.controller import variables
from helpers.testing.controller.cluster import INVALID_ID, VERSION
from helpers.testing.controller.commands.sbatch import submit
from helpers.testing.controller.ending import cancel
from helpers.testing.controller.notation.options import UsageError, read_count, read_words
from helpers.testing.controller.step import Step

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.request import Request
    from helpers.testing.controller.server import Server


def srun(server: Server, request: Request) -> None:
    """Start a step in the job that this is called in, or in a new one."""
    try:
        options, command = read_words("srun", request.arguments)
        if "version" in options:
            request.answer({"stdout": f"slurm-wlm {VERSION}\n"})
            return
        if not command:
            raise UsageError("srun: fatal: No command given to execute.\n", code=1)
        number = options.get("jobid", request.environment.get("SLURM_JOB_ID"))
        if number is None:
            _allocate(server, request, options, command)
            return
        jobs = [job for job in server.cluster.find(number) if job.state == "RUNNING"]
        jobs = [job for job in jobs if str(job.number) == number] or jobs
        if not jobs:
            known = server.cluster.is_known(number)
            sentence = "Job/step already completing or completed" if known else INVALID_ID
            raise UsageError(f"srun: error: Unable to confirm allocation for job {number}: {sentence}\n", code=1)
        _start(server, jobs[0], request, options, command)
    except UsageError as error:
        request.answer({"stderr": str(error).replace("sbatch:", "srun:"), "code": error.code})


def _start(server: Server, job: Job, request: Request, options: dict[str, str], command: list[str]) -> None:
    inherited = request.environment if request.environment.get("SLURM_JOB_ID") else {}
    asked = options.get("nodes", inherited.get("SLURM_NNODES", "")).partition("-")[0]
    nodes = read_count(asked) or len(job.nodes)
    wanted = options.get("ntasks", "" if "nodes" in options else inherited.get("SLURM_NTASKS", ""))
    per_node = read_count(options.get("ntasks-per-node", ""))
    tasks = read_count(wanted) or (per_node or 1) * nodes
    nodes = max(1, min(nodes, tasks, len(job.nodes)))
    cpus = read_count(options.get("cpus-per-task", "1")) or 1
    if tasks * cpus > job.demand.cpus_per_node * len(job.nodes) and "overcommit" not in options:
        raise UsageError(
            f"srun: error: Unable to create step for job {job.number}: More processors requested than permitted\n",
            code=1,
        )
    step = Step(
        server, job, job.next_step, request, command, options, job.nodes[:nodes], variables.split_tasks(tasks, nodes)
    )
    job.next_step += 1
    job.steps.append(step)
    request.when_gone = step.lose_client
    step.start()


def _allocate(server: Server, request: Request, options: dict[str, str], command: list[str]) -> None:
    message = {
        "arguments": ["--wrap=true", *_of_allocation(options)],
        "folder": request.folder,
        "environment": {name: v for name, v in request.environment.items() if not name.startswith("SBATCH_")},
    }
    jobs, answer = submit(server.cluster, message)
    if not jobs:
        words = str(answer.get("stderr", "")).replace("sbatch:", "srun:")
        words = words.replace("Batch job submission failed", "Unable to allocate resources")
        request.answer({"stderr": words, "code": answer.get("code", 1)})
        return
    job = jobs[0]
    job.name = options.get("job-name") or os.path.basename(command[0])
    job.requeue = False
    job.launch = _launcher(server, job, request, options, command)
    request.when_gone = lambda: cancel(server, job)
    server.cluster.jobs.append(job)
    server.changed()
    server.settle_now()
    if job.state == "PENDING":
        request.write_error(f"srun: job {job.number} queued and waiting for resources\n")


def _launcher(
    server: Server, job: Job, request: Request, options: dict[str, str], command: list[str]
) -> Callable[[], None]:
    def launch() -> None:
        request.environment = {**request.environment, **variables.of_job(server.cluster, job)}
        steps_options = {name: value for name, value in options.items() if name not in {"nodes", "ntasks"}}
        step_options = {**steps_options, "ntasks": str(job.demand.tasks)}
        _start(server, job, request, step_options, command)

    return launch


def _of_allocation(options: dict[str, str]) -> list[str]:
    own = ("account", "partition", "qos", "time", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem",
           "mem-per-cpu", "gpus", "gpus-per-node", "gres", "constraint", "nodelist", "exclude", "reservation",
           "dependency", "begin", "comment")  # fmt: skip
    return [f"--{name}={options[name]}" for name in own if name in options] + [
        "--exclusive" for name in ("exclusive",) if name in options
    ]
