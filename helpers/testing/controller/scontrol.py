"""Show and change what the controller knows."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import running
from helpers.testing.controller.cluster import INVALID_ID
from helpers.testing.controller.dependencies import describe, read_dependencies
from helpers.testing.controller.hostlists import compress, expand
from helpers.testing.controller.options import NONE, ONE, UsageError, read_words
from helpers.testing.controller.sinfo import cpus_used, gres, mem_used, state_of
from helpers.testing.controller.squeue import tasks_text
from helpers.testing.controller.words import long_time, memory_text, moment, read_minutes, read_wait_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server
    from helpers.testing.settings import Node, Partition

_TABLE = {
    **dict.fromkeys(("clusters", "uid"), ONE),
    **dict.fromkeys(("all", "details", "federation", "future", "help", "hide", "local", "oneliner", "quiet", "sibling",
                     "usage", "verbose", "version"), NONE),
}  # fmt: skip
_SHORT = {"a": "all", "d": "details", "F": "future", "h": "help", "M": "clusters", "o": "oneliner", "Q": "quiet",
          "u": "uid", "v": "verbose", "V": "version"}  # fmt: skip
_FINISHED = "Job has already finished"
_DISABLED = "Requested operation is presently disabled"
_PENDING = "Job is pending execution"

Lines = list[str]


def scontrol(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    """Answer ``scontrol``."""
    options, words = read_words("scontrol", message["arguments"], table=_TABLE, short=_SHORT, stops_at_first=False)
    if "version" in options:
        return {"stdout": "slurm-wlm 22.05.8\n"}
    form = message["environment"].get("SLURM_TIME_FORMAT")
    match [words[0].lower(), *words[1:]] if words else [""]:
        case ["show", what, *names]:
            return _show(server, what.lower(), names, oneliner="oneliner" in options, form=form)
        case ["ping"]:
            return {"stdout": f"Slurmctld(primary) at {os.uname().nodename} is UP\n"}
        case ["version"]:
            return {"stdout": "slurm 22.05.8\n"}
        case [("requeue" | "requeuehold") as verb, *rest]:
            return _requeue(server, rest, holds=verb == "requeuehold")
        case [("hold" | "uhold" | "release") as verb, *ids]:
            return _hold(server, ids, "" if verb == "release" else "JobHeldUser")
        case ["update", *settings]:
            return _update(server, dict(word.partition("=")[::2] for word in settings))
        case [("suspend" | "resume" | "notify" | "top" | "reconfigure" | "write" | "token") as verb, *_]:
            return {"stderr": f"helpers.testing: the fake scontrol has no {verb}\n", "code": 1}
    return {"stderr": f"invalid keyword: {words[0] if words else ''}\n", "code": 1}


def _show(server: Server, what: str, names: list[str], *, oneliner: bool, form: str | None) -> dict[str, Any]:
    cluster = server.cluster
    if what.startswith("job"):
        jobs = [job for name in names for job in _find(cluster, name)] if names else cluster.jobs
        if names and not jobs:
            raise UsageError(f"slurm_load_jobs error: {INVALID_ID}\n", code=1)
        return {"stdout": _blocks([job_lines(cluster, job, texts, form) for job, texts in _together(jobs)], oneliner)}
    if what.startswith("conf"):
        return {"stdout": config_text(cluster)}
    if what.startswith("part"):
        parts = [part for part in cluster.settings.partitions if not names or part.name in names[0].split(",")]
        if names and not parts:
            raise UsageError(f"Partition {names[0]} not found\n", code=1)
        return {"stdout": _blocks([_partition_lines(cluster, part) for part in parts], oneliner)}
    if what.startswith("node"):
        wanted = expand(names[0]) if names else list(cluster.nodes)
        if missing := [name for name in wanted if name not in cluster.nodes]:
            return {"stdout": f"Node {missing[0]} not found\n", "code": 1}
        return {"stdout": _blocks([_node_lines(cluster, cluster.nodes[name]) for name in wanted], oneliner)}
    if what.startswith("hostname"):
        return {"stdout": "".join(f"{name}\n" for name in expand(names[0] if names else ""))}
    if what.startswith("hostlist"):
        return {"stdout": compress(names[0].split(",")) + "\n"}
    if what.startswith("res"):
        return {"stdout": "No reservations in the system\n"}
    return {"stderr": f"invalid entity:{what} for keyword:show \n", "code": 1}


def _blocks(blocks: Sequence[Lines], oneliner: bool) -> str:
    if oneliner:
        return "".join(" ".join(block) + " \n" for block in blocks)
    return "".join("\n   ".join(block) + "\n\n" for block in blocks)


def _find(cluster: Cluster, name: str) -> list[Job]:
    """An array's own id is also that of its last element, so the whole array is shown for it."""
    return cluster.find(name)


def _together(jobs: list[Job]) -> list[tuple[Job, str]]:
    """Return each record with its element's text: those that wait are one record."""
    records: list[tuple[Job, str]] = []
    seen: set[tuple[int, str]] = set()
    for job in sorted(jobs, key=lambda one: one.state != "PENDING"):
        if job.array is None or job.started is not None or len(jobs) == 1:
            records.append((job, str(job.task)))
        elif (job.array, job.state) not in seen:
            seen.add((job.array, job.state))
            records.append((job, tasks_text(jobs, job)))
    return records


def job_lines(cluster: Cluster, job: Job, task: str, form: str | None) -> Lines:
    """Return what ``scontrol show job`` prints of one job."""
    demand, limit = job.demand, job.limit_s()
    code, number = read_wait_status(job.wait_status)
    cpus = demand.cpus_per_node * demand.nodes
    array = "" if job.array is None else f" ArrayJobId={job.array} ArrayTaskId={task}"
    array += f" ArrayTaskThrottle={job.throttle}" if array and job.throttle else ""
    gpus = sum(demand.gpus.values()) * demand.nodes
    tres = f"cpu={cpus},mem={memory_text(demand.mem_mb * demand.nodes)},node={demand.nodes},billing={cpus}"
    who = f"{job.user}({os.getuid()})"
    lines = [
        f"JobId={job.number}{array} JobName={job.name}",
        f"UserId={who} GroupId={job.user}({os.getgid()}) MCS_label=N/A",
        f"Priority={0 if job.held else 4294900000 - job.number} Nice=0 Account={job.account} "
        f"QOS={job.options.get('qos', 'normal')}",
        f"JobState={job.state} Reason={job.reason} Dependency={describe(job)}",
        f"Requeue={int(job.requeue)} Restarts={job.restarts} BatchFlag={int(job.launch is None)} Reboot=0 "
        f"ExitCode={code}:{number}",
        f"RunTime={long_time(job.elapsed_s())} TimeLimit={'UNLIMITED' if limit is None else long_time(limit)} "
        "TimeMin=N/A",
        f"SubmitTime={moment(job.submitted, form)} EligibleTime={moment(job.begin or job.submitted, form)}",
        f"AccrueTime={moment(job.submitted, form)}",
        f"StartTime={moment(job.started, form)} EndTime={moment(job.end_time(), form)} Deadline=N/A",
        f"SuspendTime=None SecsPreSuspend=0 LastSchedEval={moment(time.time(), form)} Scheduler=Main",
        f"Partition={demand.partition} AllocNode:Sid={os.uname().nodename}:{os.getpid()}",
        f"ReqNodeList={compress(demand.nodelist) or '(null)'} ExcNodeList={compress(demand.exclude) or '(null)'}",
        f"NodeList={compress(job.nodes)}",
        *([f"BatchHost={job.nodes[0]}"] if job.nodes else []),
        f"NumNodes={demand.nodes} NumCPUs={cpus} NumTasks={demand.tasks} CPUs/Task={demand.cpus_per_task} "
        "ReqB:S:C:T=0:0:*:*",
        f"TRES={tres}" + (f",gres/gpu={gpus}" if gpus else ""),
        f"Socks/Node=* NtasksPerN:B:S:C={job.options.get('ntasks-per-node', 0)}:0:*:* CoreSpec=*",
        f"MinCPUsNode={demand.cpus_per_node} {_minimum_memory(job)} MinTmpDiskNode=0",
        f"Features={'&'.join(demand.features) or '(null)'} DelayBoot=00:00:00",
        f"OverSubscribe={'NO' if demand.exclusive else 'OK'} Contiguous=0 Licenses=(null) Network=(null)",
        f"Command={job.command}",
        f"WorkDir={job.folder}",
        *([f"Comment={job.comment}"] if job.comment else []),
        f"StdErr={job.log('error')}",
        "StdIn=/dev/null",
        f"StdOut={job.log('output')}",
        "Power=",
    ]
    del cluster
    kinds = ",".join(f"gres:gpu:{kind}:{n}" if kind else f"gres:gpu:{n}" for kind, n in demand.gpus.items())
    return lines + ([f"TresPerNode={kinds}"] if kinds else [])


def _minimum_memory(job: Job) -> str:
    if "mem" in job.options:
        return f"MinMemoryNode={memory_text(job.demand.mem_mb)}"
    return f"MinMemoryCPU={memory_text(job.demand.mem_mb // max(1, job.demand.cpus_per_node))}"


def _partition_lines(cluster: Cluster, part: Partition) -> Lines:
    nodes = cluster.nodes_of(part)
    default_min = part.default_time_min
    cpus, mem = sum(node.cpus for node in nodes), sum(node.mem_mb for node in nodes)
    gpus = sum(sum(node.gpus.values()) for node in nodes)
    longest = "UNLIMITED" if part.max_time_min is None else long_time(part.max_time_min * 60)
    return [
        f"PartitionName={part.name}",
        f"AllowGroups=ALL AllowAccounts={','.join(part.accounts) or 'ALL'} AllowQos=ALL",
        f"AllocNodes=ALL Default={'YES' if part.is_default else 'NO'} QoS=N/A",
        f"DefaultTime={'NONE' if default_min is None else long_time(default_min * 60)} DisableRootJobs=NO "
        f"ExclusiveUser=NO GraceTime={int(part.grace_time_s)} Hidden=NO",
        f"MaxNodes={part.max_nodes or 'UNLIMITED'} MaxTime={longest} MinNodes=0 LLN=NO "
        "MaxCPUsPerNode=UNLIMITED",
        f"Nodes={compress(node.name for node in nodes)}",
        f"PriorityJobFactor=1 PriorityTier={part.priority_tier} RootOnly=NO ReqResv=NO "
        f"OverSubscribe={'EXCLUSIVE' if part.exclusive else 'NO'}",
        f"OverTimeLimit=NONE PreemptMode={'REQUEUE' if part.is_preemptible else 'OFF'}",
        f"State={'UP' if part.is_up else 'DOWN'} TotalCPUs={cpus} TotalNodes={len(nodes)} SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        f"DefMemPerCPU={part.mem_per_cpu_mb} MaxMemPerNode=UNLIMITED",
        f"TRES=cpu={cpus},mem={memory_text(mem)},node={len(nodes)},billing={cpus}"
        + (f",gres/gpu={gpus}" if gpus else ""),
        *([f"TRESBillingWeights={part.billing}"] if part.billing else []),
    ]  # fmt: skip


def _node_lines(cluster: Cluster, node: Node) -> Lines:
    used, features = cpus_used(cluster, node), ",".join(node.features) or "(null)"
    parts = ",".join(part.name for part in cluster.settings.partitions if node in cluster.nodes_of(part))
    gpus = sum(node.gpus.values())
    return [
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.cpus} ",
        f"CPUAlloc={used} CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad=0.00",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={features}",
        f"Gres={gres(node)}",
        f"NodeAddr=127.0.0.1 NodeHostName={node.name} Port=0 Version=22.05.8",
        "OS=Linux ",
        f"RealMemory={node.mem_mb} AllocMem={mem_used(cluster, node)} FreeMem={node.mem_mb} Sockets=1 Boards=1",
        f"State={state_of(cluster, node).upper()} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={parts} ",
        f"BootTime={moment(cluster.began)} SlurmdStartTime={moment(cluster.began)}",
        f"CfgTRES=cpu={node.cpus},mem={memory_text(node.mem_mb)},billing={node.cpus}"
        + (f",gres/gpu={gpus}" if gpus else ""),
        f"AllocTRES={f'cpu={used}' if used else ''}",
    ]


def config_text(cluster: Cluster) -> str:
    """Return what ``scontrol show config`` prints."""
    settings = cluster.settings
    accounting = "slurmdbd" if settings.accounting else "none"
    pairs = {
        "AccountingStorageEnforce": "associations" if settings.accounts else "none",
        "AccountingStorageType": f"accounting_storage/{accounting}",
        "ClusterName": settings.cluster,
        "EnforcePartLimits": "ALL" if settings.enforces_limits else "NO",
        "JobRequeue": int(settings.allows_requeue),
        "KillWait": f"{int(settings.kill_wait_s)} sec",
        "MaxArraySize": settings.max_array_size,
        "MinJobAge": f"{int(settings.min_job_age_s)} sec",
        "NEXT_JOB_ID": cluster.next_id,
        "PreemptMode": "REQUEUE",
        "PreemptType": "preempt/partition_prio",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CORE_MEMORY",
        "SLURM_CONF": cluster.folder / "slurm.conf",
        "SLURM_VERSION": "22.05.8",
        "SlurmctldHost[0]": os.uname().nodename,
    }
    lines = [f"{name:23} = {value}" for name, value in pairs.items()]
    return "\n".join(
        [
            f"Configuration data as of {moment(time.time())}",
            *lines,
            "",
            f"Slurmctld(primary) at {os.uname().nodename} is UP",
            "",
        ]
    )


def _requeue(server: Server, words: list[str], *, holds: bool) -> dict[str, Any]:
    incomplete = bool(words) and words[0].lower() == "incomplete"
    ids = [text for word in (words[1:] if incomplete else words) for text in word.split(",")]
    return _each(server, ids, lambda job: _requeue_one(server, job, only_incomplete=incomplete, holds=holds))


def _requeue_one(server: Server, job: Job, *, only_incomplete: bool, holds: bool) -> str | None:
    if holds:
        job.held = "JobHeldUser"
    if job.state == "PENDING" or (job.state == "COMPLETING" and job.requeues):
        return None if only_incomplete else _PENDING
    if not job.requeue:
        return _DISABLED
    if job.is_final:
        if not only_incomplete:
            running.revive(server, job)
        return None
    running.requeue(server, job)
    return None


def _hold(server: Server, ids: list[str], reason: str) -> dict[str, Any]:
    def change(job: Job) -> str | None:
        if job.is_final:
            return _FINISHED
        job.held = reason
        if job.state == "PENDING":
            job.reason = reason or "None"
        server.changed()
        return None

    texts = [text for word in ids for text in word.split(",")]
    answer = _each(server, texts, change)
    if answer.get("code"):
        sentence = str(answer["stderr"]).splitlines()[0].partition(" for job ")[0]
        answer["stderr"] = f"{answer['stderr']}slurm_suspend error: {sentence}\n"
    return answer


def _each(server: Server, ids: list[str], change: Callable[[Job], str | None]) -> dict[str, Any]:
    words = []
    for text in ids:
        jobs = server.cluster.find(text)
        if not jobs:
            words.append(f"{INVALID_ID} for job {text}")
        answers = [(job, change(job)) for job in jobs]
        if len(answers) > 1 and any(sentence for _, sentence in answers):
            words += [f"{job.id}: {sentence or 'No error'}" for job, sentence in answers]
        else:
            words += [f"{sentence} for job {text}" for _, sentence in answers if sentence]
    return {"stderr": "".join(f"{line}\n" for line in words), "code": 1 if words else 0}


def _update(server: Server, settings: dict[str, str]) -> dict[str, Any]:
    lower = {name.lower(): value for name, value in settings.items()}
    if "nodename" in lower:
        for name in expand(lower["nodename"]):
            server.set_node(name, lower.get("state", "").lower())
        return {}
    number = lower.get("jobid", lower.get("job", ""))
    return _each(server, [number], lambda job: _update_job(server, job, lower))


def _update_job(server: Server, job: Job, settings: dict[str, str]) -> str | None:
    if job.is_final:
        return _FINISHED
    if "dependency" in settings:
        dependencies = read_dependencies(settings["dependency"]) if settings["dependency"] else []
        if dependencies is None:
            return "Job dependency problem"
        job.dependencies = dependencies
    if "timelimit" in settings:
        minutes = read_minutes(settings["timelimit"])
        if minutes is None:
            return "Invalid time limit specification"
        job.demand.time_min = minutes
        if job.state == "RUNNING":
            running.set_clock(server, job, base=job.elapsed_s(), speed=job.clock[2])
    job.name = settings.get("jobname", settings.get("name", job.name))
    job.comment = settings.get("comment", job.comment)
    job.throttle = int(settings.get("arraytaskthrottle", job.throttle))
    job.requeue = settings.get("requeue", str(int(job.requeue))) == "1"
    server.changed()
    return None
