"""Write the files that Slurm reads.

Every line that is not obvious has its reason beside it; the rest is what a small site would have.
"""

import os
from pathlib import Path

from tests.cluster import devices
from tests.cluster.layout import Layout
from tests.cluster.settings import ClusterSettings

DATABASE = "slurm_acct_db"


def write_configuration(layout: Layout, settings: ClusterSettings) -> None:
    """Write all configuration of one cluster into its ``etc`` folder."""
    folder = layout.slurm_conf.parent
    folder.mkdir()
    (folder / "hosts").write_text(_hosts(layout))
    (folder / "gres.conf").write_text(_gres_conf(layout))
    (folder / "cgroup.conf").write_text(_cgroup_conf(settings))
    layout.slurm_conf.write_text(_slurm_conf(layout, settings))
    if settings.accounting:
        secret = folder / "slurmdbd.conf"
        secret.touch(mode=0o600)  # slurmdbd refuses to start where others may read it
        secret.write_text(_slurmdbd_conf(layout))


def _hosts(layout: Layout) -> str:
    """Return the machine's own hosts file and one line more: torch hangs on a name that does not resolve."""
    own = Path("/etc/hosts").read_text(errors="replace")
    return f"{own.rstrip()}\n127.0.0.1 {' '.join([layout.controller, *layout.nodes])}\n"


def _gres_conf(layout: Layout) -> str:
    return _lines(devices.gres_lines(layout.devices, ",".join(layout.nodes)))


def _cgroup_conf(settings: ClusterSettings) -> str:
    constrain = "yes" if settings.proctrack == "cgroup" else "no"
    return _lines(
        [
            "CgroupPlugin=cgroup/v1",
            f"ConstrainRAMSpace={constrain}",
            f"ConstrainDevices={constrain}",
            "ConstrainCores=no",  # the machine has fewer than the nodes claim
        ]
    )


def _slurmdbd_conf(layout: Layout) -> str:
    return _lines(
        [
            "AuthType=auth/munge",
            f"AuthInfo=socket={layout.munge_socket}",
            f"DbdHost={layout.controller}",
            "DbdAddr=127.0.0.1",
            f"DbdPort={layout.slurmdbd_port}",
            "SlurmUser=root",
            f"PidFile={layout.folder}/slurmdbd.pid",
            f"LogFile={layout.logs}/slurmdbd.log",
            "StorageType=accounting_storage/mysql",
            # "localhost" means the socket in $MYSQL_UNIX_PORT: the database listens on no port at all.
            "StorageHost=localhost",
            "StorageUser=root",
            f"StorageLoc={DATABASE}",
        ]
    )


def _slurm_conf(layout: Layout, settings: ClusterSettings) -> str:
    return _lines(
        [
            *_identity(layout),
            *_scheduling(settings),
            *_job_control(settings),
            *_accounting(layout, settings),
            *_nodes(layout, settings),
            *_partitions(layout, settings),
            *settings.extra,
        ]
    )


def _identity(layout: Layout) -> list[str]:
    return [
        f"ClusterName={layout.cluster_name}",
        f"SlurmctldHost={layout.controller}(127.0.0.1)",
        f"SlurmctldPort={layout.slurmctld_port}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        # cred_expire: a requeued job waits that long before it may start again, by default two minutes.
        f"AuthInfo=socket={layout.munge_socket},cred_expire=5",
        f"StateSaveLocation={layout.folder}/state",
        f"SlurmdSpoolDir={layout.folder}/spool/%n",
        f"SlurmctldPidFile={layout.folder}/slurmctld.pid",
        f"SlurmdPidFile={layout.folder}/slurmd-%n.pid",
        f"SlurmctldLogFile={layout.logs}/slurmctld.log",
        f"SlurmdLogFile={layout.logs}/slurmd-%n.log",
        "MailProg=/bin/true",
        "MpiDefault=none",
    ]


def _scheduling(settings: ClusterSettings) -> list[str]:
    return [
        "SchedulerType=sched/backfill",
        "SchedulerParameters=sched_interval=1,bf_interval=1",
        "PriorityType=priority/basic",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        f"MaxArraySize={settings.max_array_size}",
        f"MinJobAge={settings.min_job_age}",
    ]


def _job_control(settings: ClusterSettings) -> list[str]:
    plugins = ["task/cgroup"] if settings.proctrack == "cgroup" else []
    plugins += ["task/affinity"] if settings.affinity else []
    return [
        f"ProctrackType=proctrack/{settings.proctrack}",
        f"TaskPlugin={','.join(plugins) or 'task/none'}",
        f"KillWait={settings.kill_wait}",
        f"JobRequeue={int(settings.requeue)}",
        f"SlurmdTimeout={settings.slurmd_timeout}",
        # A node whose slurmd was silent is idle again when it answers; one that a test has set DOWN stays
        # so until RESUME (with 2 it came back by itself within milliseconds).
        "ReturnToService=1",
        "GresTypes=gpu",
    ]


def _accounting(layout: Layout, settings: ClusterSettings) -> list[str]:
    gathering = ["JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=2"]
    if not settings.accounting:
        return [*gathering, "AccountingStorageType=accounting_storage/none"]
    return [
        *gathering,
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={layout.slurmdbd_port}",
        # Not a password: the munge socket for talking to slurmdbd, which does not follow AuthInfo.
        f"AccountingStoragePass={layout.munge_socket}",
        "AccountingStorageTRES=gres/gpu",
    ]


def _nodes(layout: Layout, settings: ClusterSettings) -> list[str]:
    # task/affinity binds to the CPUs that Slurm counted, but the kernel has no others than its own: of 8 on a
    # machine with 2, two tasks of one CPU each both got CPUs 0 and 1. So a cluster with affinity declares the
    # CPUs that exist, and a test of affinity can rely on what it sees.
    cpus = len(os.sched_getaffinity(0)) if settings.affinity else settings.cpus_per_node
    shape = f"CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1"
    return [
        "SlurmdParameters=config_overrides",  # believe this file, not the machine
        *(
            f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={port} {shape}"
            f" RealMemory={settings.mem_mb} Gres={devices.gres()}"
            for node, port in zip(layout.nodes, layout.slurmd_ports, strict=True)
        ),
    ]


def _partitions(layout: Layout, settings: ClusterSettings) -> list[str]:
    # A default of 1000 MiB a CPU, so that a job which asks for no memory does not get the whole node.
    nodes = f"Nodes={','.join(layout.nodes)} DefMemPerCPU=1000"
    usual = f"{nodes} DefaultTime=60 MaxTime=7-0"
    low = f"PriorityTier=1 PreemptMode=REQUEUE GraceTime={settings.grace_time}"
    return [
        f"PartitionName=gpu {usual} Default=YES PriorityTier=10 PreemptMode=OFF",
        f"PartitionName=low {usual} {low}",
        f"PartitionName=gpu:interactive {nodes} DefaultTime=10 MaxTime=30 PriorityTier=10 PreemptMode=OFF",
        f"PartitionName=whole {usual} PriorityTier=10 PreemptMode=OFF OverSubscribe=EXCLUSIVE",
    ]


def _lines(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
