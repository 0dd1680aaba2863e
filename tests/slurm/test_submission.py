"""A call arrives in a Slurm job as it was written, and its value comes back."""

import os
import pickle
import re
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from helpers import InvalidRequest, Job, JobCancelled, Rejected, attach, submit
from tests.cluster import Cluster
from tests.slurm.conftest import ClusterWith
from tests.unit.submission import functions

PATIENCE_S = 120
ODD_FOLDERS = ["My Project (v2) lr=0.1 é", "50%j done", 'it\'s $(touch stray) `a` "b"', "a & b; #1"]
ODD_NAMES = ["two words", "50% of it's", "$(touch stray)"]


@pytest.fixture(scope="module")
def client(module_client: Path) -> Path:
    """This process as a client of the default cluster, for all tests here."""
    return module_client


@pytest.fixture(scope="module")
def jobs(client: Path) -> dict[str, Job[Any]]:
    """Jobs that many tests look at, submitted at once."""
    meeting = client / "meeting"
    meeting.mkdir()
    where = functions.where_am_i
    started = {
        "four gpus": submit(where, gpus=4),
        "two nodes": submit(where, nodes=2, processes=4),
        "one gpu": submit(where, gpus="a100:1"),
        "no gpu": submit(where),
        "added": submit(functions.add, 1, b=2.5, name="sum"),
        "nested": submit(functions.submit_inside, 41),
        "stubborn": submit(functions.leave_a_child_and_a_thread),
        "forked": submit(functions.terminate_a_forked_child),
    }
    for name in "ab":
        started[f"pair {name}"] = submit(functions.meet, str(meeting), name, others=2, gpus=2, processes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SBATCH_EXPORT", "NONE")
        patch.setenv("SLURM_EXPORT_ENV", "NONE")
        patch.setenv("COLOUR", "ash grey")
        started["export none"] = submit(functions.read_variable, "COLOUR")
        patch.setenv("SBATCH_PARTITION", "low")
        started["partition of the call"] = submit(where, partition="gpu")
        started["partition of the shell"] = submit(where)
    return started


def result(jobs: dict[str, Job[Any]], name: str) -> Any:
    return jobs[name].result(PATIENCE_S)


def test_arguments_arrive_and_the_value_comes_back(jobs: dict[str, Job[Any]]) -> None:
    """The one thing that everything else is for."""
    assert result(jobs, "added") == 3.5


def test_the_result_is_that_of_rank_0_and_results_are_those_of_all(jobs: dict[str, Job[Any]]) -> None:
    """C30: the documented shape, in the order of ranks."""
    ranks = [place["rank"] for place in jobs["four gpus"].results(PATIENCE_S)]
    assert (result(jobs, "four gpus")["rank"], ranks) == (0, [0, 1, 2, 3])


def test_each_rank_knows_its_place_on_one_node(jobs: dict[str, Job[Any]]) -> None:
    """C30: four GPUs on one node are local ranks 0 to 3 of 4."""
    places = jobs["four gpus"].results(PATIENCE_S)
    assert [(place["local_rank"], place["world_size"]) for place in places] == [(rank, 4) for rank in range(4)]


def test_each_rank_knows_its_place_on_two_nodes(jobs: dict[str, Job[Any]]) -> None:
    """The local rank starts again on each node, the rank goes on."""
    places = jobs["two nodes"].results(PATIENCE_S)
    nodes = sorted({place["node"] for place in places})
    assert [(place["node"], place["local_rank"]) for place in places] == [(node, n) for node in nodes for n in (0, 1)]


def test_no_two_ranks_share_a_gpu(jobs: dict[str, Job[Any]]) -> None:
    """C30: each rank takes the GPU of its local rank; all of them on number 0 trains at a quarter of the speed."""
    places = jobs["four gpus"].results(PATIENCE_S)
    assert sorted(place["gpus"].split(",")[place["local_rank"]] for place in places) == ["0", "1", "2", "3"]


def test_every_rank_sees_all_gpus_of_its_node(jobs: dict[str, Job[Any]]) -> None:
    """NCCL's peer-to-peer breaks where each rank sees only its own."""
    assert {place["visible"] for place in jobs["four gpus"].results(PATIENCE_S)} == {"0,1,2,3"}


def test_two_jobs_share_no_gpu(jobs: dict[str, Job[Any]]) -> None:
    """C30: they ran at the same time, which each of them has seen."""
    places = [result(jobs, "pair a"), result(jobs, "pair b")]
    taken = [(place["node"], gpu) for place in places for gpu in place["gpus"].split(",")]
    assert len(set(taken)) == 4


def test_a_job_without_gpus_sees_none(jobs: dict[str, Job[Any]]) -> None:
    """C30: it would run on those of somebody else."""
    assert (result(jobs, "no gpu")["gpus"], result(jobs, "no gpu")["visible"] or "") == (None, "")


def test_one_gpu_is_one_process(jobs: dict[str, Job[Any]]) -> None:
    """The type is part of the request."""
    assert (result(jobs, "one gpu")["world_size"], result(jobs, "one gpu")["visible"]) == (1, "0")


def test_the_job_runs_the_callers_python_in_the_callers_folder(jobs: dict[str, Job[Any]], client: Path) -> None:
    """C44: not the first python on the PATH of the node."""
    place = result(jobs, "no gpu")
    assert (place["python"], place["folder"]) == (sys.executable, str(client))


def test_the_environment_arrives_although_the_site_exports_none(jobs: dict[str, Job[Any]]) -> None:
    """C45: some sites set SBATCH_EXPORT=NONE for everybody."""
    assert result(jobs, "export none") == "ash grey"


def test_the_call_outranks_the_shells_sbatch_variables(jobs: dict[str, Job[Any]]) -> None:
    """To sbatch a variable counts more than a line of the script; to us the call is the last word."""
    asked = (result(jobs, "partition of the call")["partition"], result(jobs, "partition of the shell")["partition"])
    assert asked == ("gpu", "low")


def test_a_job_can_submit_a_job_of_another_shape(jobs: dict[str, Job[Any]]) -> None:
    """C10: the inner one would inherit the outer one's id, CPUs and memory."""
    inner = result(jobs, "nested")
    assert (inner["value"], inner["cpus"], inner["mem"], inner["id"]) == (42, "2", "300", inner["inner_id"])


def test_a_job_that_submits_keeps_its_own_environment(jobs: dict[str, Job[Any]]) -> None:
    """C10: it goes on after that, and may ask for its own id."""
    inner = result(jobs, "nested")
    assert (inner["unchanged"], inner["outer_id"]) == (True, jobs["nested"].id)


def test_what_a_function_leaves_behind_does_not_hold_the_allocation(jobs: dict[str, Job[Any]]) -> None:
    """C16: a thread asleep and a child that ignores SIGTERM kept the job until its time limit."""
    value = result(jobs, "stubborn")
    child = Path("/proc", (jobs["stubborn"].folder / "child").read_text(), "stat")
    assert (value, not child.exists() or ") Z " in child.read_text()) == (42, True)


def test_what_a_function_leaves_behind_is_named_in_the_log(jobs: dict[str, Job[Any]]) -> None:
    """C16: the user should know that it was cut off."""
    result(jobs, "stubborn")
    assert "forgotten" in jobs["stubborn"].logs()


def test_a_forked_child_can_be_terminated(jobs: dict[str, Job[Any]]) -> None:
    """C16: it inherits the parent's "ignore SIGTERM" and stays, or acts as if it were the job."""
    assert result(jobs, "forked") == -15


def test_a_job_is_found_by_its_id_from_another_process(jobs: dict[str, Job[Any]]) -> None:
    """The laptop was closed; the number is on the screen."""
    result(jobs, "added")
    code = f"from helpers import attach; print(attach({jobs['added'].id!r}).result(60))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "3.5\n"


def test_a_pickled_job_is_the_same_run(jobs: dict[str, Job[Any]]) -> None:
    """Jobs are kept in files, and sent to other processes."""
    again = pickle.loads(pickle.dumps(jobs["added"]))
    assert (again.folder, again.result(PATIENCE_S)) == (jobs["added"].folder, 3.5)


def test_a_job_that_has_ended_has_its_state_and_log(jobs: dict[str, Job[Any]]) -> None:
    """What it printed belongs to what it returned."""
    result(jobs, "added")
    assert (jobs["added"].state, "adding" in jobs["added"].logs(rank=0)) == ("COMPLETED", True)


def test_slurms_refusal_is_told_in_slurms_words(client: Path) -> None:
    """Only Slurm knows which reservations there are, and what this account may."""
    with pytest.raises(Rejected, match="reservation is invalid"):
        submit(functions.add, 1, slurm={"reservation": "nonesuch"}, name="refused")


def test_a_refused_job_leaves_no_run_folder(client: Path) -> None:
    """It would be listed as one that waits for ever."""
    with pytest.raises(Rejected):
        submit(functions.add, 1, slurm={"reservation": "nonesuch"}, name="refused")
    assert list((client / "runs" / "refused").iterdir()) == []


def test_a_filter_in_the_callers_shell_hides_no_job(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SQUEUE_PARTITION set for their own use of squeue, the job looked forgotten, then lost."""
    monkeypatch.setenv("SQUEUE_PARTITION", "low")
    job = submit(functions.sleep, 600, slurm={"begin": "now+1hour"}, partition="gpu")
    state = job.state
    job.cancel()
    assert state == "PENDING"


def test_an_id_is_read_among_the_notices_of_a_site(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: numbers in the notices were taken for the id, and nothing could be followed afterwards."""
    shims = client / "shims"
    shims.mkdir()
    shim = shims / "sbatch"
    shim.write_text(
        textwrap.dedent("""\
        #!/bin/bash
        echo "Notice 1: maintenance on day 12" >&2
        echo "You used 3 of 10 job slots"
        PATH=${PATH#*:}
        id=$(sbatch "$@") || exit
        echo "Notice 2: 17 news" >&2
        echo "$id;demo"
        """)
    )
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    job = submit(functions.read_variable, "SLURM_JOB_ID")
    waiting = submit(functions.sleep, 600, slurm={"begin": "now+1hour"})
    assert (waiting.state, waiting.cancel()) == ("PENDING", True)
    assert isinstance(waiting.exception(PATIENCE_S), JobCancelled)
    assert job.result(PATIENCE_S) == job.id
    assert "[helpers] attempt 0" in job.logs()


@pytest.fixture(scope="module")
def odd_jobs(client: Path) -> dict[str, Job[Any]]:
    """Jobs of odd folders and odd names."""
    started = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ODD_FOLDERS:
            folder = client / "odd" / name
            folder.mkdir(parents=True)
            patch.chdir(folder)
            patch.setenv("PWD", str(folder))
            started[name] = submit(functions.add, 1, 2, setup=["echo set up"])
        patch.chdir(client)
        patch.setenv("PWD", str(client))
        for name in ODD_NAMES:
            started[name] = submit(functions.add, 1, 2, name=name, setup=["echo set up"])
    return started


@pytest.mark.parametrize("name", [*ODD_FOLDERS, *ODD_NAMES])
def test_odd_characters_in_paths_and_names_are_only_characters(odd_jobs: dict[str, Job[Any]], name: str) -> None:
    """C14: sbatch stopped at the space, expanded the per cent sign, or wrote the log elsewhere."""
    job = odd_jobs[name]
    assert job.result(PATIENCE_S) == 3
    assert "set up\n" in job.logs()
    assert "adding\n" in job.logs(rank=0)


def test_a_backslash_in_the_folder_is_refused_by_name(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C14: it turns off all patterns in the names of logs, so that those of the ranks would be one file."""
    folder = client / "back\\slash"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    with pytest.raises(InvalidRequest, match="backslash"):
        submit(functions.add, 1)


def test_odd_characters_leave_no_stray_files(odd_jobs: dict[str, Job[Any]], client: Path) -> None:
    """C14: whatever is beside the runs was written by mistake, or run by a shell."""
    for job in odd_jobs.values():
        job.result(PATIENCE_S)
    found = {path.name for name in ODD_FOLDERS for path in (client / "odd" / name).iterdir()}
    assert (found, list(client.rglob("stray")), sorted(path.name for path in (client / "odd").iterdir())) == (
        {"runs"},
        [],
        sorted(ODD_FOLDERS),
    )


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_queue_shows_an_odd_name_as_it_was_given(
    odd_jobs: dict[str, Job[Any]], cluster: Cluster, name: str
) -> None:
    """C14: it is by the name that people find their job."""
    shown = cluster.run("squeue", "--noheader", "--states=all", f"--jobs={odd_jobs[name].id}", "--format=%j").stdout
    assert shown.rstrip("\n") == name


def test_as_many_cpus_as_were_asked_for(
    cluster_with: ClusterWith, client: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C28: since Slurm 22.05 srun does not take over the job's CPUs per task; the variable of a shell confused it."""
    for name, value in cluster_with(affinity=True, accounting=False).environment.items():
        monkeypatch.setenv(name, value)
    first = submit(functions.count_cpus, cpus=2)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    second = submit(functions.count_cpus, cpus=2)
    assert [first.result(PATIENCE_S), second.result(PATIENCE_S)] == [(2, "2", "2"), (2, "2", "2")]


def test_attach_finds_a_run_by_its_folder(jobs: dict[str, Job[Any]]) -> None:
    """The folder is what is left when the number is forgotten."""
    assert attach(jobs["added"].folder).result(PATIENCE_S) == 3.5


def test_a_dry_run_asks_slurm_when_the_job_would_start(client: Path) -> None:
    """Before eight GPUs are asked for; and nothing is queued for the asking."""
    before = subprocess.run(["squeue", "--noheader", "--format=%A"], check=True, capture_output=True, text=True).stdout
    preview = submit(functions.add, 1, b=2, gpus="a100:1", time=5, dry_run=True)
    refused = submit(functions.add, 1, b=2, slurm={"reservation": "nowhere"}, dry_run=True)
    after = subprocess.run(["squeue", "--noheader", "--format=%A"], check=True, capture_output=True, text=True).stdout
    assert re.match(r"queued now, it would start at \d{4}-\d\d-\d\dT", preview.estimate)
    assert "Requested reservation is invalid" in refused.estimate
    assert set(after.split()) <= set(before.split())
