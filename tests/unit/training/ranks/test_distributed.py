"""Several processes: they meet, stop at one step, and end without hanging."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.errors import InvalidRequest
from helpers.runtime.current import Run, current_run
from helpers.runtime.rank.place import Ranks
from helpers.training import distributed
from helpers.training.ranks import rendezvous
from tests.waiting import wait_for

ROOT = Path(__file__).parents[4]
LARGE = ("--hidden", "900", "--epochs", "2", "--samples", "64")  # 3.3 MB of gradients: more than one bucket


def _results(run: Any, attempt: int = 0) -> list[dict[str, Any]]:
    logs = [(run.path / "logs" / f"{attempt}-{rank}.log").read_text() for rank in range(run.world_size)]
    return [json.loads(log.split("RESULT ")[1]) for log in logs if "RESULT " in log]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, run_class: Any) -> tuple[Any, Any]:
    """Train on 4 ranks in one go, and with a stop that reaches rank 2 alone."""
    base = tmp_path_factory.mktemp("ranks")
    straight, stopped = run_class(base / "straight", 4), run_class(base / "stopped", 4)
    assert straight.train(*LARGE) == [0] * 4, straight.logs()
    assert stopped.train(*LARGE, "--term-at", "2", "--term-rank", "2") == [0] * 4, stopped.logs()
    return straight, stopped


def test_a_stop_seen_by_one_rank_ends_all_at_the_same_step(runs: tuple[Any, Any]) -> None:
    """Slurm may signal one; the others would wait for it in a collective."""
    _, stopped = runs
    assert all((stopped.path / f"left-{rank}").exists() for rank in range(4)), stopped.logs()
    step = json.loads(stopped.folder.attempt(0).requeue_mark.read_text())["step"]
    assert [stopped.steps(rank)[-1]["step"] for rank in range(4)] == [step] * 4
    assert len(list(stopped.folder.checkpoints.glob("step-*/rank-*.json"))) == 4


def test_a_resumed_run_of_four_ranks_is_the_same_bit_for_bit_and_one_of_two_loses_no_sample(
    runs: tuple[Any, Any], run_class: Any
) -> None:
    """DDP as it stands differs in the first step after a resume: it rebuilds its buckets after the first one."""
    straight, stopped = runs
    fewer = run_class(shutil.copytree(stopped.path, stopped.path.with_name("fewer")), 2)
    assert stopped.train(*LARGE) == [0] * 4, stopped.logs()
    assert stopped.ends() == straight.ends()
    assert "find_unused_parameters" not in straight.logs()  # torch's warning of a walk that each step would take
    for rank in range(4):
        assert stopped.steps(rank) == straight.steps(rank)
    assert fewer.train(*LARGE) == [0] * 2, fewer.logs()
    lines = [line for rank in range(4) for line in fewer.steps(rank)]
    for epoch in range(2):
        assert sorted(n for line in lines if line["epoch"] == epoch for n in line["ids"]) == list(range(64))
    assert "saved by 4 ranks, resumed by 2" in fewer.logs()


def test_the_clock_of_rank_0_saves_at_one_step_and_a_kill_loses_no_more(start_run: Callable[..., Any]) -> None:
    """``save_every`` as a time needs an agreement, or the ranks would save different steps."""
    run = start_run("clock", 2)
    options = ("--epochs", "2", "--samples", "160", "--step-s", "0.05", "--save-every", "0.4s")
    assert run.train(*options, "--kill-at", "30", "--once-saved", "15") == [-9, -9]
    saved = sorted(path.name for path in run.folder.checkpoints.glob("step-*"))
    assert run.train(*options) == [0, 0], run.logs()
    resumed = int(saved[-1].split("-")[1])
    assert [line["step"] for line in run.steps(1)] == [*range(1, 31), *range(resumed + 1, 41)]


def test_two_runs_on_one_node_meet_and_enter_twice(start_run: Callable[..., Any]) -> None:
    """No fixed port, none derived from an id; a file of an earlier attempt is not believed."""
    one, other = start_run("one", 3), start_run("other", 2)
    stale = one.folder.attempt(0).path
    stale.mkdir(parents=True)
    begun = one.begin("meet.py", "meet", OMP_NUM_THREADS=""), other.begin("meet.py", "meet", OMP_NUM_THREADS="")
    assert [one.end(begun[0]), other.end(begun[1])] == [[0] * 3, [0] * 2], one.logs() + other.logs()
    threads = max(1, len(os.sched_getaffinity(0)) // 3)
    assert _results(one, 1) == [
        {"mean": 1.0, "again": 2.0, "sum": 3.0, "found": rank > 0, "threads": threads, "left_over": False}
        for rank in range(3)
    ]
    assert [result["mean"] for result in _results(other)] == [0.5, 0.5]


def test_a_rank_that_fails_ends_the_others_and_is_named_as_the_cause(start_run: Callable[..., Any]) -> None:
    """Waiting for a peer that is gone costs GPUs until the time limit."""
    run = start_run("fail", 3)
    processes = run.begin("meet.py", "fail")
    wait_for(lambda: processes[1].poll() is not None, run.logs, within_s=240)
    begin = time.monotonic()
    assert run.end(processes) == [1, 1, 1]
    assert time.monotonic() - begin < 40  # of the 60 s for which a collective waits
    assert "ValueError: the cause" in (run.path / "logs" / "0-1.log").read_text()
    others = [(run.path / "logs" / f"0-{rank}.log").read_text() for rank in (0, 2)]
    assert any("follows an earlier failure, in rank 1: ValueError: the cause" in log for log in others), run.logs()


def test_a_rank_that_is_done_early_waits_for_the_others(start_run: Callable[..., Any]) -> None:
    """Rank 0 hosts what the others talk to."""
    run = start_run("late", 2)
    assert run.run("meet.py", "late") == [0, 0], run.logs()


def test_a_lost_rank_does_not_hang_a_stop(start_run: Callable[..., Any]) -> None:
    """SIGTERM often comes *because* a peer died: no agreement is possible then, and nobody waits for ever."""
    run = start_run("lost", 2)
    processes = run.begin("train.py", str(run.path), "--epochs", "50", "--step-s", "0.05", "--answer-s", "4")
    steps = run.path / "steps-1.jsonl"
    wait_for(lambda: processes[0].poll() is not None or (steps.exists() and len(run.steps(1)) >= 3), run.logs)
    assert processes[0].poll() is None, run.logs()
    processes[1].kill()
    processes[0].send_signal(signal.SIGTERM)
    begin = time.monotonic()
    codes = run.end(processes)
    assert codes[1] == -9
    assert codes[0] != 0
    assert time.monotonic() - begin < 25
    assert not run.folder.attempt(0).requeue_mark.exists()


def test_two_ranks_on_one_gpu_are_refused(start_run: Callable[..., Any]) -> None:
    """Each would have half of its memory and half of its speed; NCCL fails later, in other words."""
    run = start_run("same", 2)
    assert run.run("devices.py", "one_gpu", UUIDS="GPU-8932 GPU-8932") == [0, 0], run.logs()
    refused = [str(result["refused"]) for result in _results(run)]
    assert "Ranks 0 and 1 would share one GPU (GPU-8932 on" in refused[0]
    assert "Ranks 1 and 0 would share one GPU (GPU-8932 on" in refused[1]


def test_under_torchrun_two_ranks_on_one_gpu_are_refused_too(start_run: Callable[..., Any]) -> None:
    """Before NCCL is asked, whose error names no rank; each with a GPU of its own passes."""
    run = start_run("torchrun", 2)
    variables = {"HELPERS_RUN": "", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    assert run.run("devices.py", "one_gpu", UUIDS="GPU-8932 GPU-8932", **variables) == [0, 0], run.logs()
    assert all("would share one GPU" in str(result["refused"]) for result in _results(run))
    variables["MASTER_PORT"] = str(_free_port())
    assert run.run("devices.py", "one_gpu", UUIDS="GPU-8932 GPU-7f2a", **variables) == [0, 0], run.logs()
    assert _results(run, 1) == [{"refused": ""}] * 2


def test_a_sharded_model_trains_as_a_whole_one_and_no_checkpoint_is_made_of_it(start_run: Callable[..., Any]) -> None:
    """FSDP2: each rank holds its share; a checkpoint of one share would be half a model."""
    run = start_run("shard", 2)
    assert run.run("devices.py", "shard") == [0, 0], run.logs()
    results = _results(run)
    assert [result["same"] for result in results] == [True, True]
    assert sum(int(result["local"]) for result in results) == 2 * (4 * 4 + 4) + 4 + 1
    assert all("sharded over the ranks (FSDP)" in str(result["refused"]) for result in results)


def test_a_wrapped_model_is_as_it_was_whatever_it_is_made_of(start_run: Callable[..., Any]) -> None:
    """Its buckets are settled by a step of their own, which must leave no gradient, and fit every kind of model."""
    run = start_run("wrapping", 2)
    assert run.run("wrapping.py") == [0, 0], run.logs()
    for rank, result in enumerate(_results(run)):
        told = result.pop("not looked for")
        assert result == {"gradient": rank, "sparse": "", "batch norm": "", "found": "", "as on a GPU": ""}
        assert "`find_unused_parameters=True`" in told  # what is to be done, by torch's own name for it
    assert run.logs().count("did not find any unused parameters") == 2, run.logs()  # of the sparse model, in each rank


def test_training_in_fp16_keeps_its_scaler_and_rank_0_says_what_the_ranks_talk_over(
    start_run: Callable[..., Any],
) -> None:
    """The scale is part of the state; a network that is slower than it should be is seen in the first minute."""
    run = start_run("half", 2)
    assert run.run("devices.py", "half", HELPERS_PRECISION="fp16") == [0, 0], run.logs()
    for result in _results(run):
        assert (result["precision"], result["output"], result["scaler"]) == ("fp16", "torch.float16", True)
        assert "scale" in result["kept"]
    said = [line for line in run.logs().splitlines() if "all-reduce of" in line]
    assert len(said) == 1
    assert re.fullmatch(
        r"helpers: 2 processes on 1 node, gloo over lo\S*: all-reduce of [\d.]+ MiB in [\d.e+]+ ms, [\d.e-]+ GB/s\.",
        said[0],
    )


def test_a_rank_that_never_comes_is_named(start_run: Callable[..., Any]) -> None:
    """Ten minutes of silence, and then "wait timeout", tell nothing."""
    run = start_run("missing", 3)
    processes = run.begin("meet.py", "soon")
    processes[1].kill()
    assert run.end(processes) == [1, -9, 1], run.logs()
    assert "RendezvousFailed: Rank 0 of 3 waited in vain for rank 1." in run.logs()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_under_torchrun_its_meeting_point_is_used(start_run: Callable[..., Any]) -> None:
    """The same script runs with torchrun, without a run folder."""
    run = start_run("torchrun", 2)
    variables = {"HELPERS_RUN": "", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    assert run.run("meet.py", "keep", **variables) == [0, 0], run.logs()
    assert _results(run) == [{"n": 5}, {"n": 5}]
    assert (run.path / "c" / "step-00000002" / "rank-00001.json").exists()


def test_under_a_plain_srun_the_ranks_meet_in_the_folder_of_submission(start_run: Callable[..., Any]) -> None:
    """Nothing of ours is needed, and nothing is left behind."""
    run = start_run("srun", 2)
    variables = {"HELPERS_RUN": "", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_SUBMIT_DIR": str(run.path)}
    assert run.run("meet.py", "keep", **variables) == [0, 0], run.logs()
    assert _results(run) == [{"n": 5}, {"n": 5}]
    assert not list(run.path.glob(".rendezvous*"))


def test_a_file_of_another_start_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old address would be a closed port, or worse, somebody else's open one."""
    from datetime import timedelta

    monkeypatch.setenv("SLURM_JOB_ID", "7")
    old, new = (Run(folder=tmp_path, ranks=Ranks(), attempt=n, end_time=None) for n in (0, 1))
    address = rendezvous.Address(hosts=("127.0.0.1",), port=1, token="t")  # noqa: S106
    rendezvous.publish(tmp_path / "r.json", address, old)
    assert rendezvous.find(tmp_path / "r.json", old, timeout=timedelta(seconds=1)) == address
    with pytest.raises(rendezvous.RendezvousFailed, match="did not publish its address"):
        rendezvous.find(tmp_path / "r.json", new, timeout=timedelta(seconds=0.2))
    with pytest.raises(rendezvous.RendezvousFailed, match="cannot be reached"):
        rendezvous.connect(address, timeout=timedelta(seconds=1))


def test_a_store_with_another_token_is_not_ours() -> None:
    """A port that was given to another program in the meantime."""
    from datetime import timedelta

    second = timedelta(seconds=5)
    server = rendezvous.open_store(one_node=True, timeout=second)
    assert rendezvous.connect(server.address, timeout=second).host == "127.0.0.1"
    foreign = rendezvous.Address(hosts=server.address.hosts, port=server.address.port, token="other")  # noqa: S106
    with pytest.raises(rendezvous.RendezvousFailed, match="another program's store"):
        rendezvous.connect(foreign, timeout=second)


def test_processes_with_no_place_to_meet_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four interactive shells with RANK set by hand."""
    for name in ("HELPERS_RUN", "SLURM_JOB_ID", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidRequest, match="nothing says where they meet"), distributed():
        pass


@pytest.mark.parametrize("step", [None, "4294967290"])
def test_the_shell_of_an_allocation_is_one_process_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: str | None
) -> None:
    """Slurm's variables tell of four tasks; waiting for three that nobody starts would take ten minutes."""
    for name in ("RANK", "WORLD_SIZE", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)
    if step is not None:  # an interactive step, as LaunchParameters=use_interactive_step makes it
        monkeypatch.setenv("SLURM_STEP_ID", step)
    monkeypatch.setattr(sys.modules["helpers.training.ranks.distributed"], "_said_alone", False)
    with distributed(), distributed():
        assert current_run().world_size == 1
    said = capsys.readouterr().err
    assert said == (
        "helpers: this is one process in the allocation of job 7; `srun python …` starts one for each of its tasks.\n"
    )


def test_a_notebook_is_one_process_and_nothing_is_said(tmp_path: Path) -> None:
    """A kernel has no program of its own, runs cells in an event loop, and is no place for a process group."""
    cell = (
        "import asyncio\n"
        "from helpers.training import distributed, get_device, is_main, wrap\n"
        "import torch\n"
        "async def cell():\n"
        "    for _ in range(2):\n"
        "        with distributed():\n"
        "            model = wrap(torch.nn.Linear(1, 1))\n"
        "            print(get_device(), is_main(), type(model).__name__)\n"
        "asyncio.run(cell())\n"
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-"], input=cell, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("cpu True Linear\n" * 2, "")


def test_one_process_needs_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same function runs on a laptop."""
    monkeypatch.delenv("RANK", raising=False)
    with distributed():
        assert current_run().world_size == 1
