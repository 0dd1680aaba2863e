"""The cluster that the other tests stand on does what a real one does, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterError, ClusterSettings, cgroups, processes
from tests.cluster.layout import free_ports
from tests.cluster.teardown import processes_of, read_record
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
LEAN = ClusterSettings(accounting=False)
OPEN_ALL_DEVICES = """
import errno, pathlib, sys
for device in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        device.open()
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


def submit(cluster: Cluster, folder: Path, script: str, *options: str) -> str:
    """Submit a shell script and return its job id."""
    file = folder / "job.sh"
    file.write_text(f"#!/bin/bash\n{script}\n")
    return cluster.run("sbatch", "--parsable", f"--output={folder}/out", *options, str(file)).stdout.strip()


def state_of(cluster: Cluster, job: str) -> str:
    shown = cluster.run("scontrol", "--oneliner", "show", "job", job).stdout
    return shown.partition("JobState=")[2].split()[0]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200
    )


def assert_gone(cluster_folder: Path, nodes: tuple[str, ...], pids: dict[int, int | None]) -> None:
    assert [pid for pid, started in pids.items() if processes.start_time(pid) == started] == []
    assert not cluster_folder.exists()
    assert str(cluster_folder) not in Path("/proc/mounts").read_text()
    assert cgroups.folders_of(nodes) == []


def test_both_nodes_are_idle(cluster: Cluster) -> None:
    """Nothing else works before this does."""
    cluster.wait_until_idle()
    listed = cluster.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T %c %G").stdout.splitlines()
    assert listed == [f"{node} idle 8 gpu:a100:4,gpu:2g.10gb:2" for node in cluster.nodes]


def test_each_node_has_a_hostname_of_its_own_that_resolves(cluster: Cluster) -> None:
    """Torch asks for the address of its own hostname, and hangs for minutes where there is none."""
    code = "import socket; name = socket.gethostname(); print(name, socket.gethostbyname(name))"
    printed = cluster.run("srun", "-N2", "python3", "-c", code).stdout.splitlines()
    assert sorted(printed) == [f"{node} 127.0.0.1" for node in cluster.nodes]


def test_the_machines_own_hosts_file_is_untouched(cluster: Cluster) -> None:
    """A developer's machine must not collect the names of test clusters."""
    assert cluster.nodes[0] not in Path("/etc/hosts").read_text()


@pytest.mark.parametrize(("asked", "on_the_node", "for_cuda"), [("a100:2", "0,1", "0,1"), ("2g.10gb:1", "4", "0")])
def test_a_job_is_told_which_gpus_it_has(cluster: Cluster, asked: str, on_the_node: str, for_cuda: str) -> None:
    """Slurm names the devices of the node; CUDA is told to count from 0 where it cannot see the others."""
    if cluster.proctrack != "cgroup":
        pytest.skip("cgroups cannot be written here")
    variables = ["SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"]
    printed = cluster.run("srun", f"--gpus-per-node={asked}", "printenv", *variables).stdout.split()
    assert printed == [on_the_node, for_cuda]


def test_a_job_can_open_its_own_gpu_only(cluster: Cluster) -> None:
    """Its own has no driver (ENXIO); the devices cgroup forbids the five others (EPERM)."""
    if cluster.proctrack != "cgroup":
        pytest.skip("cgroups cannot be written here")
    command = ["python3", "-c", OPEN_ALL_DEVICES, str(cluster.layout.devices)]
    printed = cluster.run("srun", "--gpus-per-node=a100:1", *command).stdout.split()
    assert printed == ["ENXIO", "EPERM", "EPERM", "EPERM", "EPERM", "EPERM"]


def test_a_job_over_its_memory_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Out of memory must be the kernel's doing, with Slurm's own word for it."""
    if cluster.proctrack != "cgroup":
        pytest.skip("cgroups cannot be written here")
    job = submit(cluster, tmp_path, "python3 -c 'bytearray(500 * 2**20)'", "--mem=50")
    wait_for(lambda: state_of(cluster, job) == "OUT_OF_MEMORY")


def test_a_preempted_job_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    """A job in a higher partition takes the node; the victim is requeued and told so."""
    where = ["-w", cluster.nodes[0], "-c8", "--mem=100"]
    script = f"echo ${{SLURM_RESTART_COUNT:-first}} >> {tmp_path}/starts; exec sleep 600"
    victim = submit(cluster, tmp_path, script, "-p", "low", *where)
    starts = tmp_path / "starts"
    wait_for(starts.exists)
    cluster.run("srun", "-p", "gpu", *where, "true")
    wait_for(lambda: starts.read_text().split() == ["first", "1"])
    cluster.run("scancel", victim)


def test_the_interactive_partition_ends_after_half_an_hour(cluster: Cluster, tmp_path: Path) -> None:
    """A request above a partition's limit is accepted by Slurm, and then waits for ever."""
    job = submit(cluster, tmp_path, "true", "-p", "gpu:interactive", "-t", "31")
    wait_for(lambda: cluster.run("squeue", "-h", "-j", job, "-o", "%r").stdout.strip() == "PartitionTimeLimit")
    cluster.run("scancel", job)
    assert cluster.run("sinfo", "-h", "-p", "gpu:interactive", "-o", "%l").stdout.strip() == "30:00"


def test_sacct_knows_a_job_that_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    """With accounting, states outlive the controller's memory."""
    job = submit(cluster, tmp_path, "exit 3")
    sacct = ["sacct", "-n", "-P", "-X", "-j", job, "-o", "State,ExitCode"]
    wait_for(lambda: cluster.run(*sacct).stdout.strip() == "FAILED|3:0")


def test_an_ordinary_user_can_run_a_job(cluster: Cluster) -> None:
    """Ownership and read-only bits mean nothing to root, so some tests run as somebody else."""
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    assert cluster.run(*as_nobody, "srun", "--chdir=/", "id", "-u").stdout.strip() == "65534"


def test_a_node_can_be_lost_and_found(cluster: Cluster, tmp_path: Path) -> None:
    """A job on a node that goes down is requeued; the node serves again when it is resumed."""
    job = submit(cluster, tmp_path, "exec sleep 600", "-w", cluster.nodes[1])
    wait_for(lambda: state_of(cluster, job) == "RUNNING")
    cluster.set_node_state(cluster.nodes[1], "DOWN")
    wait_for(lambda: state_of(cluster, job) == "PENDING")
    cluster.run("scancel", job)
    cluster.set_node_state(cluster.nodes[1], "RESUME")
    cluster.wait_until_idle()


def test_the_controller_can_be_stopped_and_started_again(cluster: Cluster, tmp_path: Path) -> None:
    """A job outlives an outage of the controller (by SIGKILL it would also forget its last seconds)."""
    job = submit(cluster, tmp_path, "exec sleep 600")
    wait_for(lambda: state_of(cluster, job) == "RUNNING")
    cluster.stop_daemon("slurmctld")
    assert cluster.run("scontrol", "ping", check=False).returncode == 1
    cluster.start_daemon("slurmctld")
    wait_for(lambda: cluster.run("scontrol", "ping", check=False).returncode == 0)
    assert state_of(cluster, job) == "RUNNING"
    cluster.run("scancel", job)


def test_an_unknown_daemon_is_refused_with_those_there_are(cluster: Cluster) -> None:
    """A misspelt name in a fault test must not pass for a fault."""
    with pytest.raises(ClusterError, match=r"'slurmd' here; there are: munged, .*, slurmctld, slurmd-"):
        cluster.stop_daemon("slurmd")


def test_without_accounting_only_the_controller_answers(cluster_with: Callable[..., Cluster]) -> None:
    """Many small clusters have no database, so the library must not need one."""
    plain = cluster_with(accounting=False)
    assert plain.run("squeue", "-h").stdout == ""
    refused = plain.run("sacct", check=False)
    assert refused.returncode == 1
    assert "accounting storage is disabled" in refused.stderr


def test_two_clusters_do_not_meet(cluster: Cluster, cluster_with: Callable[..., Cluster]) -> None:
    """Several sessions may test on one machine at once."""
    other = cluster_with(accounting=False)
    assert set(cluster.nodes).isdisjoint(other.nodes)
    assert cluster.run("srun", "hostname").stdout.strip() in cluster.nodes
    assert other.run("srun", "hostname").stdout.strip() in other.nodes


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_with_affinity_a_task_is_bound_to_the_cpus_it_asked_for(cluster_with: Callable[..., Cluster]) -> None:
    """What a numeric library counts must be what the job was given."""
    bound = cluster_with(accounting=False, affinity=True)
    count = ["python3", "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    assert bound.run("srun", "-c1", *count).stdout.strip() == "1"
    assert bound.run("srun", "-c2", *count).stdout.strip() == "2"
    assert bound.run("srun", "-n2", "-c1", *count).stdout.split() == ["1", "1"]


def test_nothing_is_left_when_it_ends(tmp_path: Path) -> None:
    """Not a job that ignores SIGTERM, nor its child in a session of its own, nor a suspended one."""
    with Cluster(LEAN) as cluster:
        stubborn = f"trap '' TERM; setsid sleep 600 & touch {tmp_path}/started; sleep 600; sleep 600"
        submit(cluster, tmp_path, stubborn)
        frozen = submit(cluster, tmp_path, "exec sleep 600")
        wait_for(lambda: (tmp_path / "started").exists() and state_of(cluster, frozen) == "RUNNING")
        cluster.run("scontrol", "suspend", frozen)
        folder, nodes = cluster.folder, cluster.nodes
        pids = {pid: processes.start_time(pid) for pid in processes_of(cluster.layout)}
        assert len(pids) > 8
        begin = time.monotonic()
    assert time.monotonic() - begin < 30
    assert_gone(folder, nodes, pids)


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    """Half a cluster is worse than none."""
    folder = tmp_path / "cluster"
    broken = Cluster(ClusterSettings(accounting=False, extra=("NoSuchOption=1",)), folder=folder)
    with pytest.raises(ClusterError, match="Parsing error at unrecognized key: NoSuchOption"):
        broken.start()
    assert processes.seeing(folder / "etc" / "hosts") == set()
    assert not folder.exists()


def test_a_port_that_is_taken_meanwhile_costs_a_second_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Free when it was chosen, and no longer when the controller wants it: another program was faster."""
    with socket.create_server(("", 0)) as taken:
        chosen = [(taken.getsockname()[1], *free_ports(3)), free_ports(4)]
        monkeypatch.setattr("tests.cluster.cluster.free_ports", lambda _: chosen.pop(0))
        with Cluster(LEAN) as cluster:
            assert cluster.run("srun", "echo", "up").stdout == "up\n"
    assert chosen == []
    assert "Address already in use" in capsys.readouterr().err


def test_a_cluster_whose_process_was_killed_can_be_removed(tmp_path: Path) -> None:
    """SIGKILL leaves no time to clean up, so a later command must be able to."""
    folder = tmp_path / "cluster"
    code = (
        "import os, pathlib, sys; from tests.cluster import *;"
        " Cluster(ClusterSettings(accounting=False), folder=pathlib.Path(sys.argv[1])).start();"
        " os.kill(os.getpid(), 9)"
    )
    assert python("-c", code, str(folder)).returncode == -signal.SIGKILL
    record = read_record(folder)
    assert record is not None
    assert record.abandoned
    pids = {pid: processes.start_time(pid) for pid in processes_of(record.layout)}
    assert len(pids) >= 4
    assert python("-m", "tests.cluster", "down", "--folder", str(folder)).returncode == 0
    assert_gone(folder, record.layout.nodes, pids)


def test_up_status_and_down_by_hand(tmp_path: Path) -> None:
    """`up` prints one line for the shell and leaves the cluster running; a second one prints it again."""
    folder = ["--folder", str(tmp_path / "cluster")]
    line = f"export SLURM_CONF={tmp_path}/cluster/etc/slurm.conf HELPERS_ALLOW_CPU=1\n"
    started = python("-m", "tests.cluster", "up", "--no-accounting", "--proctrack", "linuxproc", *folder)
    assert (started.returncode, started.stdout) == (0, line)
    again = python("-m", "tests.cluster", "up", *folder)
    assert (again.returncode, again.stdout) == (0, line)
    assert "runs already" in again.stderr
    asked = python("-m", "tests.cluster", "status", *folder)
    assert "proctrack linuxproc, accounting off\nboth nodes are idle" in asked.stderr
    assert python("-m", "tests.cluster", "down", *folder).returncode == 0
    assert python("-m", "tests.cluster", "status", *folder).returncode == 1
    assert not (tmp_path / "cluster").exists()
