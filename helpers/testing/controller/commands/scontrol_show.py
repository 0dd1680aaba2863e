"""Show jobs, partitions, nodes and the configuration as ``scontrol`` does."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.cluster import INVALID_ID, VERSION
from helpers.testing.controller.dependencies import describe
from helpers.testing.controller.jobs import waiting_elements
from helpers.testing.controller.nodes import cpus_used, gres, gres_used, mem_used, state_of
from helpers.testing.controller.notation.exit_codes import read_wait_status
from helpers.testing.controller.notation.gpus import gpus_text
from helpers.testing.controller.notation.hostlists import compress, expand
from helpers.testing.controller.notation.memory import memory_text
from helpers.testing.controller.notation.options import UsageError
from helpers.testing.controller.notation.times import long_time, moment

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.jobs import Job
    from helpers.testing.settings import Node, Partition

Lines = list[str]


def show(cluster: Cluster, what: str, names: list[str], *, options: Container[str], form: str | None) -> dict[str, Any]:
    """Answer ``scontrol show``.

    Args:
        cluster: What is known.
        what: The kind of thing, as it was written: ``job``, ``partition``, ``node``, …
        names: Which of them; all where there is none.
        options: Those in force, by their long names.
        form: How times are written: ``SLURM_TIME_FORMAT``.

    Raises:
        UsageError: If there is none of that name.
    """
    oneliner = "oneliner" in options
    if what.startswith("job"):
        jobs = [job for name in names for job in cluster.find(name)] if names else cluster.jobs
        if names and not jobs:
            raise UsageError(f"slurm_load_jobs error: {INVALID_ID}\n", code=1)
        return {"stdout": _blocks([_job_lines(job, texts, form) for job, texts in _together(jobs)], oneliner)}
    if what.startswith("conf"):
        return {"stdout": _config_text(cluster)}
    if what.startswith("part"):
        parts = [part for part in cluster.settings.partitions if not names or part.name in names[0].split(",")]
        if names and not parts:
            raise UsageError(f"Partition {names[0]} not found\n", code=1)
        return {"stdout": _blocks([_partition_lines(cluster, part) for part in parts], oneliner)}
    if what.startswith("node"):
        wanted = expand(names[0]) if names else list(cluster.nodes)
        if missing := [name for name in wanted if name not in cluster.nodes]:
            return {"stdout": f"Node {missing[0]} not found\n", "code": 1}
        blocks = [_node_lines(cluster, cluster.nodes[name], details="details" in options) for name in wanted]
        return {"stdout": _blocks(blocks, oneliner)}
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


def _together(jobs: list[Job]) -> list[tuple[Job, str]]:
    """Return each record with its element's text: those that wait are one record."""
    records: list[tuple[Job, str]] = []
    seen: set[tuple[int, str]] = set()
    for job in sorted(jobs, key=lambda one: one.state != "PENDING"):
        if job.array is None or job.started is not None or len(jobs) == 1:
            records.append((job, str(job.task)))
        elif (job.array, job.state) not in seen:
            seen.add((job.array, job.state))
            records.append((job, waiting_elements(jobs, job)))
    return records


def _job_lines(job: Job, task: str, form: str | None) -> Lines:
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
    kinds = gpus_text(demand.gpus, word="gres:gpu")
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


def _node_lines(cluster: Cluster, node: Node, *, details: bool) -> Lines:
    used, features = cpus_used(cluster, node), ",".join(node.features) or "(null)"
    parts = ",".join(part.name for part in cluster.settings.partitions if node in cluster.nodes_of(part))
    gpus = sum(node.gpus.values())
    return [
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.cpus} ",
        f"CPUAlloc={used} CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad=0.00",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={features}",
        f"Gres={gres(node)}",
        *(["GresDrain=N/A", f"GresUsed={gres_used(cluster, node)}"] if details else []),
        f"NodeAddr=127.0.0.1 NodeHostName={node.name} Port=0 Version={VERSION}",
        "OS=Linux ",
        f"RealMemory={node.mem_mb} AllocMem={mem_used(cluster, node)} FreeMem={node.mem_mb} Sockets=1 Boards=1",
        f"State={state_of(cluster, node).upper()} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={parts} ",
        f"BootTime={moment(cluster.began)} SlurmdStartTime={moment(cluster.began)}",
        f"CfgTRES=cpu={node.cpus},mem={memory_text(node.mem_mb)},billing={node.cpus}"
        + (f",gres/gpu={gpus}" if gpus else ""),
        f"AllocTRES={f'cpu={used}' if used else ''}",
    ]


def _config_text(cluster: Cluster) -> str:
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
        "SLURM_VERSION": VERSION,
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
