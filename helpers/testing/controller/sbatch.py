"""Take a submission, or refuse it in Slurm's words."""

from __future__ import annotations

import getpass
import math
import os
import re
import shlex
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import options as words_of
from helpers.testing.controller.arrays import read_array
from helpers.testing.controller.capacity import could_ever_run, find_place
from helpers.testing.controller.dependencies import read_dependencies
from helpers.testing.controller.hostlists import compress, expand
from helpers.testing.controller.jobs import Demand, Job
from helpers.testing.controller.options import UsageError, read_count
from helpers.testing.controller.words import moment, read_memory_mb, read_minutes

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.settings import Partition

UNAVAILABLE = "Requested node configuration is not available"
_DEFAULT_SIGNAL_S = 60
_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "": 1}


class Refusal(Exception):
    """The controller refuses a job; its message is the reason.

    Args:
        reason: Slurm's sentence.
        before: Lines that sbatch prints before it.
    """

    def __init__(self, reason: str, *, before: str = "") -> None:
        super().__init__(reason)
        self.before = before


def submit(cluster: Cluster, message: dict[str, Any]) -> tuple[list[Job], dict[str, Any]]:
    """Read what ``sbatch`` was called with; return the new jobs and the answer."""
    arguments: list[str] = message["arguments"]
    try:
        options, rest = words_of.read_words("sbatch", arguments)
        if "version" in options:
            return [], {"stdout": "slurm-wlm 22.05.8\n"}
        if "wrap" not in options and not rest and "input" not in message:
            return [], {"wants_input": True}
        command, script = _read_script(options, rest, message)
        by_script, by_shell = words_of.read_script("sbatch", script), words_of.read_variables(message["environment"])
        merged = {**by_script, **by_shell, **options}
        jobs = _make_jobs(cluster, _without_opposites(merged), script, command, rest, message)
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


def _make_jobs(
    cluster: Cluster, options: dict[str, str], script: str, command: str, rest: list[str], message: dict[str, Any]
) -> list[Job]:
    demand = _read_demand(cluster, options)
    sent = _read_signal(options.get("signal"))
    dependencies = read_dependencies(options["dependency"]) if options.get("dependency") else []
    folder = os.path.join(message["folder"], options.get("chdir", ""))
    name = options.get("job-name") or ("wrap" if "wrap" in options else os.path.basename(command))
    if command == "(null)" and "wrap" not in options and "job-name" not in options:
        name = "sbatch"
    if dependencies is None:
        raise Refusal("Job dependency problem")
    if "reservation" in options:
        raise Refusal("Requested reservation is invalid")
    array = read_array(options["array"], max_size=cluster.settings.max_array_size) if "array" in options else ([], 0)
    if array is None:
        raise Refusal("Invalid job array specification")
    tasks, throttle = array
    now = time.time()
    number = cluster.next_id if "test-only" in options else cluster.take_id()
    job = Job(
        number=number,
        name=name,
        options=options,
        demand=demand,
        script=script,
        command=command,
        arguments=rest[1:],
        folder=folder.rstrip("/") or "/",
        environment=_exported(options, message["environment"]),
        user=getpass.getuser(),
        account=options.get("account", getpass.getuser()),
        submitted=now,
        begin=_read_begin(options.get("begin"), now, cluster.settings.seconds_per_minute),
        throttle=throttle,
        task_ids=tasks,
        requeue="requeue" in options or ("no-requeue" not in options and cluster.settings.allows_requeue),
        held="JobHeldUser" if "hold" in options else "",
        kills_invalid_dependency=options.get("kill-on-invalid-dep") == "yes",
        dependencies=dependencies,
        signal=sent,
        comment=options.get("comment", ""),
    )
    if not tasks:
        return [job]
    return [
        replace(job, array=number, task=task, dependencies=[replace(entry) for entry in dependencies],
                steps=[], ended_steps=[], sessions=set(), history=[], gpus={}, nodes=[])
        for task in tasks
    ]  # fmt: skip


def _exported(options: dict[str, str], environment: dict[str, str]) -> dict[str, str]:
    words = options.get("export", "ALL").split(",")
    own = dict(environment)  # with what the shell has of an outer job, as the real one does
    if words[0] in {"NONE", "NIL"}:
        own = {name: own[name] for name in ("HOME", "USER", "LOGNAME", "SHELL", "SLURM_CONF", "PATH") if name in own}
    elif words[0] != "ALL":
        own = {name: own[name] for name in [*words, "SLURM_CONF", "PATH", "HOME", "USER"] if name in own}
    own |= dict(word.partition("=")[::2] for word in words if "=" in word)
    if options.get("export", "ALL") != "ALL":
        own["SLURM_EXPORT_ENV"] = options["export"]
    return own


def _read_demand(cluster: Cluster, options: dict[str, str]) -> Demand:
    minutes = read_minutes(options["time"]) if "time" in options else None
    if "time" in options and minutes is None:
        raise UsageError("sbatch: error: Invalid --time specification\n")
    mem = {name: _memory(name, options) for name in ("mem", "mem-per-cpu", "mem-per-gpu")}
    nodes = _node_count(options)
    tasks, per_node = _number(options, "ntasks"), _number(options, "ntasks-per-node")
    cpus = _number(options, "cpus-per-task") or 1
    partition = _find_partition(cluster, options)
    _check_names(cluster, options, partition)
    gpus, total = _gpus(options)
    if nodes is None:
        nodes = _fewest_nodes(cluster, partition, tasks, per_node, cpus, total)
    tasks = tasks or (per_node or 1) * nodes
    demand = Demand(
        partition=partition.name,
        nodes=nodes,
        tasks=tasks,
        cpus_per_task=cpus,
        gpus=gpus or ({kind: -(-count // nodes) for kind, count in total.items()}),
        exclusive="exclusive" in options or partition.exclusive,
        nodelist=tuple(expand(options.get("nodelist", ""))),
        exclude=tuple(expand(options.get("exclude", ""))),
        features=tuple(word for word in re.split(r"[&|,]", options.get("constraint", "")) if word),
        time_min=minutes if minutes is not None else (partition.default_time_min or partition.max_time_min or 0),
    )
    demand.mem_mb = _memory_on_node(cluster, partition, demand, mem)
    _check_capacity(cluster, demand, partition)
    return demand


def _memory(name: str, options: dict[str, str]) -> int | None:
    if name not in options:
        return None
    amount = read_memory_mb(options[name])
    if amount is None:
        raise UsageError(f"sbatch: error: Invalid --{name} specification\n")
    return amount


def _node_count(options: dict[str, str]) -> int | None:
    if "nodes" not in options:
        return len(expand(options["nodelist"])) if options.get("nodelist") else None
    match = re.fullmatch(r"(\d+k?)(?:-(\d+k?))?", options["nodes"])
    if match is None or not (count := read_count(match[1])):
        raise UsageError(f'sbatch: error: "{options["nodes"]}" is not a valid node count\n')
    return count


def _number(options: dict[str, str], name: str) -> int | None:
    if name not in options:
        return None
    if not (count := read_count(options[name])):
        raise UsageError(f'sbatch: error: Invalid numeric value "{options[name]}" for --{name}.\n', code=1)
    return count


def _find_partition(cluster: Cluster, options: dict[str, str]) -> Partition:
    name = options.get("partition")
    if name is None:
        default = cluster.default_partition()
        if default is None:
            raise Refusal("No partition specified or system default partition")
        return default
    for part in name.split(","):
        if (found := cluster.partition(part)) is not None:
            return found
    raise Refusal("Invalid partition name specified", before=f"invalid partition specified: {name}")


def _check_names(cluster: Cluster, options: dict[str, str], partition: Partition) -> None:
    account, accounts = options.get("account", getpass.getuser()), cluster.settings.accounts
    allowed = not partition.accounts or account in partition.accounts
    if (accounts and "account" in options and account not in accounts) or not allowed:
        raise Refusal("Invalid account or account/partition combination specified")
    if set(expand(options.get("nodelist", ""))) - set(cluster.nodes):
        raise Refusal("Invalid node name specified")
    known = {feature for node in cluster.nodes.values() for feature in node.features}
    if set(re.split(r"[&|,]", options.get("constraint", ""))) - known - {""}:
        raise Refusal("Invalid feature specification")


def _gpus(options: dict[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the GPUs for each node, and those for the whole job."""
    per_node = _read_gpus(options.get("gpus-per-node", ""))
    for entry in options.get("gres", "").split(","):
        if entry.startswith("gpu"):
            per_node |= _read_gpus(entry.removeprefix("gpu").removeprefix(":") or "1")
    total = _read_gpus(options.get("gpus", ""))
    if "gpus-per-task" in options and "ntasks" in options:
        times = read_count(options["ntasks"]) or 1
        total |= {kind: count * times for kind, count in _read_gpus(options["gpus-per-task"]).items()}
    return per_node, total


def _read_gpus(text: str) -> dict[str, int]:
    gpus: dict[str, int] = {}
    for entry in text.split(","):
        kind, _, count = entry.rpartition(":")
        if count.isdecimal():
            gpus[kind] = gpus.get(kind, 0) + int(count)
        elif entry:
            gpus[entry] = gpus.get(entry, 0) + 1
    return {kind: count for kind, count in gpus.items() if count}


def _fewest_nodes(
    cluster: Cluster, partition: Partition, tasks: int | None, per_node: int | None, cpus: int, gpus: dict[str, int]
) -> int:
    if tasks and per_node:
        return math.ceil(tasks / per_node)
    nodes = cluster.nodes_of(partition)
    fit = max((node.cpus // cpus for node in nodes), default=1) or 1
    by_tasks = min(math.ceil((tasks or 1) / fit), max(1, len(nodes)))
    by_gpus = 1
    for kind, count in gpus.items():
        most = max((node.gpus.get(kind, 0) if kind else sum(node.gpus.values()) for node in nodes), default=0)
        by_gpus = max(by_gpus, math.ceil(count / most)) if most else by_gpus
    return max(by_tasks, by_gpus)


def _memory_on_node(cluster: Cluster, partition: Partition, demand: Demand, mem: dict[str, int | None]) -> int:
    if mem["mem"] is not None:
        whole = max(node.mem_mb for node in cluster.nodes_of(partition))
        return mem["mem"] or whole
    if mem["mem-per-gpu"] is not None:
        return mem["mem-per-gpu"] * sum(demand.gpus.values())
    most = max((node.cpus for node in cluster.nodes_of(partition)), default=1)
    per_cpu = partition.mem_per_cpu_mb if mem["mem-per-cpu"] is None else mem["mem-per-cpu"]
    return per_cpu * min(demand.cpus_per_node, most)


def _check_capacity(cluster: Cluster, demand: Demand, partition: Partition) -> None:
    lacking = could_ever_run(cluster, demand)
    if lacking is not None:
        raise Refusal(UNAVAILABLE, before="Memory specification can not be satisfied" if lacking == "memory" else "")
    if not cluster.settings.enforces_limits:
        return
    if over_limit(cluster, demand) == "PartitionTimeLimit":
        raise Refusal("Requested time limit is invalid (missing or exceeds some limit)")
    if over_limit(cluster, demand) is not None:
        raise Refusal("Node count specification invalid" if partition.max_nodes else UNAVAILABLE)


def over_limit(cluster: Cluster, demand: Demand) -> str | None:
    """Return Slurm's reason why a job waits for ever, or None."""
    partition = cluster.partition(demand.partition)
    if partition is None:
        return "PartitionDown"
    nodes = cluster.nodes_of(partition)
    limit = partition.max_time_min
    if limit is not None and (demand.time_min > limit or not demand.time_min):
        return "PartitionTimeLimit"
    if demand.nodes > min(len(nodes), partition.max_nodes or len(nodes)):
        return "PartitionNodeLimit"
    if demand.cpus_per_node > max((node.cpus for node in nodes), default=0):
        return "PartitionConfig"
    return None if partition.is_up else "PartitionDown"


def _read_signal(text: str | None) -> tuple[str, int, bool] | None:
    """Return the signal's name, the seconds before the limit, and whether it is for the batch shell."""
    if not text:
        return None
    match = re.fullmatch(r"(?:([RB]+):)?(\w+)(?:@(\d+))?", text)
    name = "" if match is None else match[2].removeprefix("SIG")
    known = name.isdecimal() or hasattr(signal, f"SIG{name}")
    if match is None or not known:
        raise UsageError("sbatch: error: Invalid --signal specification\n")
    name = signal.Signals(int(name)).name if name.isdecimal() else f"SIG{name}"
    return name, int(match[3] or _DEFAULT_SIGNAL_S), "B" in (match[1] or "")


def _read_begin(text: str | None, now: float, seconds_per_minute: float) -> float:
    if not text:
        return 0.0
    match = re.fullmatch(r"now(?:\+(\d+)(second|minute|hour|day|week|)s?)?", text)
    if match:
        return now + int(match[1] or 0) * _UNITS_S[match[2] or ""] * seconds_per_minute / 60
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text, form))
        except ValueError:
            continue
    raise UsageError(f"sbatch: error: Invalid time specification (pos=0): {shlex.quote(text)}\n")
