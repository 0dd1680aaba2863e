"""The variables that Slurm sets in a batch script and in each task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from helpers.testing.controller.notation.hostlists import compress, per_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.jobs import Job

_OF_GPUS = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")


def of_job(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return what every process of a job sees."""
    asked, demand = job.options, job.demand
    nodes = compress(job.nodes)
    tasks = per_node(split_tasks(demand.tasks, len(job.nodes)))
    cpus = per_node([count * demand.cpus_per_task for count in split_tasks(demand.tasks, len(job.nodes))])
    found = {
        "SLURM_CLUSTER_NAME": cluster.settings.cluster,
        "SLURM_CONF": str(cluster.folder / "slurm.conf"),
        "SLURM_JOBID": str(job.number),
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_CPUS_PER_NODE": cpus,
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_JOB_ID": str(job.number),
        "SLURM_JOB_NAME": job.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(job.nodes)),
        "SLURM_JOB_PARTITION": demand.partition,
        "SLURM_JOB_QOS": asked.get("qos", "normal"),
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_USER": job.user,
        "SLURM_NNODES": str(len(job.nodes)),
        "SLURM_NODELIST": nodes,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_SUBMIT_DIR": job.folder,
        "SLURM_SUBMIT_HOST": os.uname().nodename,
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_WORKING_CLUSTER": f"{cluster.settings.cluster}:127.0.0.1:0:9728:109",
    }
    found |= _as_asked(job)
    if job.restarts:
        found["SLURM_RESTART_COUNT"] = str(job.restarts)
    return found | _of_array(job)


def _as_asked(job: Job) -> dict[str, str]:
    """Return those that exist only where the job asks for what they tell."""
    asked, demand = job.options, job.demand
    names = {"gpus": "SLURM_GPUS", "gpus-per-node": "SLURM_GPUS_PER_NODE", "gpus-per-task": "SLURM_GPUS_PER_TASK",
             "ntasks-per-node": "SLURM_NTASKS_PER_NODE", "cpus-per-task": "SLURM_CPUS_PER_TASK"}  # fmt: skip
    found = {variable: asked[option] for option, variable in names.items() if option in asked}
    if "ntasks" in asked or "ntasks-per-node" in asked:
        found |= {"SLURM_NTASKS": str(demand.tasks), "SLURM_NPROCS": str(demand.tasks)}
    if "open-mode" in asked:
        found["SLURM_OPEN_MODE"] = asked["open-mode"][:1]
    if "mem" in asked:
        found["SLURM_MEM_PER_NODE"] = str(demand.mem_mb)
    elif demand.cpus_per_node:
        found["SLURM_MEM_PER_CPU"] = str(demand.mem_mb // demand.cpus_per_node)
    return found


def _of_array(job: Job) -> dict[str, str]:
    if job.array is None:
        return {}
    indices = job.task_ids
    return {
        "SLURM_ARRAY_JOB_ID": str(job.array),
        "SLURM_ARRAY_TASK_COUNT": str(len(indices)),
        "SLURM_ARRAY_TASK_ID": str(job.task),
        "SLURM_ARRAY_TASK_MAX": str(indices[-1]),
        "SLURM_ARRAY_TASK_MIN": str(indices[0]),
        "SLURM_ARRAY_TASK_STEP": str(indices[1] - indices[0] if len(indices) > 1 else 1),
    }


def of_node(job: Job, node: str, *, node_number: int, in_step: bool) -> dict[str, str]:
    """Return what depends on the node: its name, its CPUs, and the GPUs of the job there, counted from 0."""
    found = {
        "SLURMD_NODENAME": node,
        "SLURM_CPUS_ON_NODE": str(job.demand.cpus_per_node),
        "SLURM_NODEID": str(node_number),
        "SLURM_TOPOLOGY_ADDR": node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }
    numbers = job.gpus.get(node, [])
    if numbers:
        listed = ",".join(map(str, numbers))
        found |= {
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(len(numbers)))),
            "SLURM_GPUS_ON_NODE": str(len(numbers)),
            "SLURM_JOB_GPUS": listed,
        }
        if in_step:
            found["SLURM_STEP_GPUS"] = listed
    return found


def of_batch(cluster: Cluster, job: Job) -> dict[str, str]:
    """Return the whole environment of a batch script."""
    node = job.nodes[0]
    own = {name: value for name, value in job.environment.items() if name not in _OF_GPUS}
    batch = {"SLURM_GTIDS": "0", "SLURM_LOCALID": "0", "SLURM_PROCID": "0", "HOSTNAME": node}
    found = {**own, **of_job(cluster, job), **of_node(job, node, node_number=0, in_step=False), **batch}
    return _with_commands(cluster, found)


def of_task(
    cluster: Cluster, job: Job, base: dict[str, str], counts: Sequence[int], nodes: Sequence[str], *, step: int,
    rank: int, node_number: int, local: int,
) -> dict[str, str]:  # fmt: skip
    """Return the whole environment of one task of a step."""
    own = {name: value for name, value in base.items() if name not in _OF_GPUS}
    first = sum(counts[:node_number])
    task = {
        "SLURM_GTIDS": ",".join(str(first + n) for n in range(counts[node_number])),
        "SLURM_DISTRIBUTION": "block" if len(nodes) > 1 else "cyclic",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_LOCALID": str(local),
        "SLURM_NTASKS": str(sum(counts)),
        "SLURM_NPROCS": str(sum(counts)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_PROCID": str(rank),
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_STEPID": str(step),
        "SLURM_STEP_ID": str(step),
        "SLURM_STEP_NODELIST": compress(nodes),
        "SLURM_STEP_NUM_NODES": str(len(nodes)),
        "SLURM_STEP_NUM_TASKS": str(sum(counts)),
        "SLURM_STEP_TASKS_PER_NODE": per_node(list(counts)),
        "SLURM_TASKS_PER_NODE": per_node(list(counts)),
        "SLURM_UMASK": "0022",
    }
    place = of_node(job, nodes[node_number], node_number=node_number, in_step=True)
    return _with_commands(cluster, {**own, **of_job(cluster, job), **place, **task})


def split_tasks(tasks: int, nodes: int) -> list[int]:
    """Return how many tasks each node gets."""
    whole, more = divmod(tasks, max(1, nodes))
    return [whole + (number < more) for number in range(max(1, nodes))]


def _with_commands(cluster: Cluster, environment: dict[str, str]) -> dict[str, str]:
    """Keep the fake's commands first on PATH, whatever the job exports."""
    commands, path = str(cluster.folder / "bin"), environment.get("PATH", os.defpath)
    if commands in path.split(os.pathsep):
        return environment
    return {**environment, "PATH": os.pathsep.join([commands, path])}
