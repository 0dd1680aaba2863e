"""What a job had, what it used, and what to ask for next time."""

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.attempt.attempt import Conclusion
from helpers.runtime.files import write_json
from helpers.runtime.gpus.nvml import Gpu
from helpers.runtime.run.description import Description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, Peak, State, record_attempt
from helpers.runtime.usage import report as usage
from helpers.runtime.usage.few_steps import say_few_steps
from helpers.runtime.usage.meter import UsageMeter
from helpers.runtime.usage.report import Given, Used, advise, read_given

GIVEN = Given(processes=1, nodes=1, gpus=1, cpus=4, mem_mb=16384, time_min=480)
IDLE, BUSY = ({"uuid": name, "busy_percent": busy, "looks": 9} for name, busy in (("GPU-1", 0.0), ("GPU-2", 34.0)))
HELD = "x = bytearray(300 << 20); x[::4096] = b'1' * len(x[::4096]); sum(range(3000000)); "


def test_the_three_lines_say_what_was_asked_what_was_used_and_what_to_ask_for(
    run: RunFolder, described: Callable[..., Description], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """So that the next submission is no guess; programs find the same in the run folder."""
    resources = {"cpus": "2", "mem": "16G", "gpus": "1"}
    description = described(resources=resources, time_min=480, gpus=1)
    record_attempt(run, event="start", attempt=0, job_id="7", nodes="gpu1")
    begun = json.loads(run.ledger.read_text())["time"]
    monkeypatch.setattr(time, "time", lambda: begun + 4320)
    monkeypatch.setattr(usage, "peak_on_this_node", lambda: Peak(mem_mb=3174, source="cgroup"))
    files = run.attempt(run.begin_attempt())
    for rank in range(2):
        gpus = [{**BUSY, "name": "A100", "peak_mb": 900}] if rank == 0 else []
        write_json(files.usage(rank), {"node": "gpu1", "cpu_s": 2592, "peak_mb": 2000, "gpus": gpus})
    returned = Conclusion(state=State.COMPLETED, ending=Ending(cause="returned"), exit_code=0)
    usage.say_usage(run, description, 0, returned)
    assert capsys.readouterr().err.splitlines() == [
        "[helpers] asked: 4 CPUs · 16G · 1 GPU · 8h",
        "[helpers] used: 1.2 CPUs · peak 3.1G · GPU 34 % · 1h12",
        '[helpers] next time: cpus=1, mem="4G", time="2h"',
    ]
    assert json.loads(run.usage.read_text())["used"]["mem_mb"] == 3174


@pytest.mark.parametrize(
    ("used", "advice"),
    [
        (Used(seconds=18000, cpus=3.1, mem_mb=11000), "what was asked for fits"),
        (Used(seconds=600, cpus=0.2, mem_mb=100), 'cpus=1, mem="512M", time="20min"'),
        (Used(seconds=18000, cpus=3.1, mem_mb=16000), 'mem="20G"'),
        (Used(seconds=18000, cpus=3.1, mem_mb=11000, gpus=[IDLE]), "gpus=0"),
        (Used(seconds=18000), "what was asked for fits"),
    ],
)
def test_next_time_names_what_does_not_fit_and_nothing_else(used: Used, advice: str) -> None:
    """What is twice too much waits longer in the queue; what was nearly too little fails the next time."""
    assert advise(GIVEN, used, State.COMPLETED, is_first=True) == advice


@pytest.mark.parametrize("state", [State.FAILED, State.TIMEOUT, State.OUT_OF_MEMORY, State.CANCELLED, State.REQUEUED])
def test_a_job_that_has_not_done_its_work_gives_no_advice(state: State) -> None:
    """An error after a minute says nothing of what the whole takes; why it ended stands in the error already."""
    said = "it goes on in another attempt" if state is State.REQUEUED else ""
    assert advise(GIVEN, Used(seconds=60, cpus=0.1, mem_mb=9), state, is_first=True) == said


def ledger(*attempts: tuple[str | None, float, int]) -> list[dict[str, Any]]:
    """Return the lines of attempts: where each began, how long it took, and the step that it saved."""
    lines: list[dict[str, Any]] = []
    for number, (checkpoint, seconds, step) in enumerate(attempts):
        begun = 1000.0 * number
        lines.append({"event": "start", "attempt": number, "time": begun, "checkpoint": checkpoint})
        lines.append({"event": "end", "attempt": number, "time": begun + seconds, "step": step})
    return lines


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (ledger((None, 110, 1)), "attempt 0: 1min, 1 step: the"),
        (ledger((None, 110, 1), ("step-00000001", 110, 83)), ""),
        (ledger((None, 110, 82), ("step-00000082", 121, 102)), "attempt 1: 2min, 20 steps: the"),
        (ledger((None, 110, 82), ("step-00000082-epoch-3", 121, 82)), "attempt 1: 2min, 0 steps: the"),
        (ledger((None, 12, 1)), ""),
    ],
)
def test_an_attempt_whose_limit_went_on_something_else_says_so(lines: list[dict[str, Any]], said: str) -> None:
    """Seven attempts of a step each were told as "it goes on"; what was preempted early says nothing of the limit."""
    start, end = lines[-2:]
    seconds = end["time"] - start["time"]
    told = "".join(say_few_steps(lines, end["attempt"], 2, seconds=seconds, step=end["step"]))
    assert told.startswith(said)
    assert bool(told) == bool(said)
    assert told.endswith('; ask for more, time="10min"' if said else "")


def test_a_later_attempt_does_not_tell_the_time_of_the_whole() -> None:
    """It has done the rest of the work only."""
    used = Used(seconds=600, cpus=3.1, mem_mb=11000)
    assert advise(GIVEN, used, State.COMPLETED, is_first=False) == "what was asked for fits"


def test_what_was_left_open_is_what_slurm_gave(described: Callable[..., Description]) -> None:
    """Its own words for it, in the batch script's environment."""
    environment = {
        "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
        "SLURM_MEM_PER_NODE": "4096",
        "HELPERS_END_TIME": "7300",
    }
    given = read_given(described(nodes=3, time_min=None), environment, begun=100.0)
    assert given.line() == "20 CPUs · 4G on each of 3 nodes · 2h"


def test_too_little_memory_is_told_by_the_kernels_count(
    run: RunFolder, described: Callable[..., Description], capsys: Any
) -> None:
    """The ranks, which were killed, have looked too early."""
    ending = Ending(cause="out_of_memory", peak=Peak(mem_mb=2048, source="cgroup"))
    usage.say_usage(run, described(), 0, Conclusion(state=State.OUT_OF_MEMORY, ending=ending, exit_code=1))
    assert "used: peak 2G" in capsys.readouterr().err


def test_the_meter_sees_children_that_live_and_those_that_have_ended(tmp_path: Path) -> None:
    """A loader's workers, a program that a function starts: they run on the job's CPUs, in its memory."""
    path = tmp_path / "usage.json"
    code = (
        "import subprocess, sys, pathlib\n"
        "from helpers.runtime.usage.meter import UsageMeter\n"
        "meter = UsageMeter(pathlib.Path(sys.argv[1]), with_gpus=False)\n"
        f"subprocess.run([sys.executable, '-c', {HELD!r}], check=True)\n"
        "import os; before = sum(os.times()[:2])\n"
        f"living = subprocess.Popen([sys.executable, '-c', {HELD + 'print(flush=True); input()'!r}],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "living.stdout.readline(); meter.finish(); own = sum(os.times()[:2]); living.communicate(b'\\n')\n"
        "print(own, sum(os.times()[2:4]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    own_s, children_s = map(float, done.stdout.split())
    seen = json.loads(path.read_text())
    assert seen["peak_mb"] >= 300
    assert 0.8 * children_s < seen["cpu_s"] <= own_s + children_s + 0.1


def test_the_gpus_are_looked_at_while_the_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its end they are idle; the mean is of all looks, and what is no GPU of a driver is left out."""
    seen = threading.Event()
    readings = itertools.chain([20, 40], itertools.repeat(None))

    def look(_: object) -> list[Gpu]:
        busy = next(readings)
        if busy is None:
            seen.set()
            return []
        return [
            Gpu(uuid="GPU-1", index="0", name="A100", used_mb=10 * busy, busy_percent=busy),
            Gpu(uuid="x", index="x"),
        ]

    monkeypatch.setattr("helpers.runtime.usage.meter.usable_gpus", look)
    monkeypatch.setattr("helpers.runtime.usage.meter._FIRST_LOOK_S", 0.01)
    meter = UsageMeter(tmp_path / "usage.json", with_gpus=True)
    meter.start()
    assert seen.wait(60)
    meter.finish()
    gpu = {"uuid": "GPU-1", "name": "A100", "busy_percent": 30.0, "peak_mb": 400, "looks": 2}
    assert json.loads((tmp_path / "usage.json").read_text())["gpus"] == [gpu]


def test_a_meter_that_cannot_write_does_not_fail_the_job(tmp_path: Path) -> None:
    """The disk is full, or the folder is gone."""
    meter = UsageMeter(tmp_path / "gone" / "usage.json", with_gpus=True)
    meter.start()
    meter.finish()
    assert not (tmp_path / "gone").exists()
