"""Find out which processes of a job get which signal on this cluster, and how long a job has to save.

That depends on settings that users cannot see the effect of: the tracking of processes decides whether Slurm
signals the process it has started, its group, or everything below it. So a short job is asked: its process, a
forked child of it and a program that it has started write down what comes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable
from helpers.runtime.current import current_run
from helpers.submission.clusters.slurm_queue import ask_slurm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.submission.jobs.job import Job

PROCESSES = {"function": "the function's process", "forked": "a child it forked", "program": "a program it started"}
_LOST_SIGHT_OF = {
    "linuxproc": "what a process has started that is killed (SIGKILL)",
    "pgid": "a program that leaves the process group (`setsid`, a daemon)",
}
_SENT = ("USR2", "TERM")
_ARRIVES_S = 20.0  # a signal that the function has not got by then does not come
_PAUSE_S = 2.0  # for the others to get it too
_LONGEST_S = 100.0
_RECORD = """
import signal, sys, time
file = open(sys.argv[1], "a")
def note(number, frame):
    print(time.time(), signal.Signals(number).name[3:], file=file, flush=True)
for name in ("SIGUSR2", "SIGTERM"):
    signal.signal(getattr(signal, name), note)
print(0, "READY", file=file, flush=True)
time.sleep(600)
"""


@dataclass(frozen=True, kw_only=True)
class SignalReport:
    """What one job has seen, and what the cluster says of itself.

    Args:
        seen: For each process of ``PROCESSES``, the signals that came, by their delay in seconds.
        settings: The settings of Slurm that decide on signals.
        partitions: For each partition its preemption mode and grace.
    """

    seen: dict[str, dict[str, float]]
    settings: dict[str, str]
    partitions: dict[str, dict[str, str]]

    def lines(self) -> list[str]:
        """Return what came, as a table, and what it means."""
        return [*self._table(), "", "What that means for a job here:", *(f"- {line}" for line in self._meaning())]

    def _table(self) -> list[str]:
        tracking = self.settings.get("ProctrackType", "unknown")
        rows = [("", "the warning, SIGUSR2", "the stop, SIGTERM")]
        for process, name in PROCESSES.items():
            came = {word: f"after {delay * 1e3:.0f} ms" for word, delay in self.seen[process].items()}
            rows.append((name, came.get("USR2", "no"), came.get("TERM", "no")))
        table = [f"{name:24s} {warning:22s} {stop}".rstrip() for name, warning, stop in rows]
        return [f"Which process of a job gets which signal (ProctrackType={tracking}):", *table]

    def _meaning(self) -> list[str]:
        wait_s = int("".join(filter(str.isdigit, self.settings.get("KillWait", "30"))) or 30)
        limit = "the time limit: the warning 90 s before it (Slurm may be 60 s early; a quarter of a limit below 6 min)"
        lines = [
            self._reached(),
            *self._outlives(),
            f"{limit}, SIGTERM at it, SIGKILL {wait_s} s later (KillWait)",
            *self._preemption(wait_s),
        ]
        if self.settings.get("JobRequeue") == "0":
            lines.append("a requeue: JobRequeue=0, so a job comes back only with --requeue, which is always asked for")
        return lines

    def _reached(self) -> str:
        if not self.seen["function"]:
            return "no signal reaches the function: save often, at most save_every is kept"
        if "USR2" not in self.seen["program"]:
            return "the function is told, and nothing that it has started: loader workers and programs run on"
        starting = "start one that is to run on by `env --ignore-signal=USR2 PROGRAM …`"
        return f"all processes are told: SIGUSR2 ends the programs that the function has started; {starting}"

    def _outlives(self) -> list[str]:
        """Say what Slurm loses sight of; it is tried in ``tests/slurm/test_descendants.py``."""
        lost = _LOST_SIGHT_OF.get(self.settings.get("ProctrackType", "").removeprefix("proctrack/"))
        return [f"Slurm loses sight of {lost}: it may outlive the job, and hold the memory of its GPU"] if lost else []

    def _preemption(self, wait_s: int) -> list[str]:
        lines = []
        for partition, facts in self.partitions.items():
            if facts["PreemptMode"] not in {"OFF", "DISABLED"}:
                grace_s = int(facts["GraceTime"] or 0)
                lines.append(
                    f"a preemption in {partition}: SIGTERM comes first, and SIGKILL {grace_s + wait_s} s later "
                    f"(GraceTime {grace_s} s, KillWait {wait_s} s); the step under way and a save must fit into that"
                )
        return lines or ["no partition lets its jobs be preempted"]


def probe_signals(*, partition: str | None = None, within_s: float = 600) -> SignalReport:
    """Submit the job, signal it, and return what it has seen.

    Args:
        partition: Where it runs; None for the cluster's default.
        within_s: How long to wait for its start.

    Raises:
        ClusterUnreachable: If Slurm does not answer, or the job does not start in time.
    """
    from helpers import Executor

    job = Executor(name="doctor-signals", time=2, requeue=False, partition=partition, cluster="slurm").submit(record)
    try:
        seen = _signal(job, within_s)
    except BaseException:  # Ctrl-C too: nobody asks any more what it would see
        job.cancel()
        raise
    return SignalReport(seen=seen, settings=_settings(), partitions=_partitions())


def _signal(job: Job[None], within_s: float) -> dict[str, dict[str, float]]:
    place = job.folder / "signals"
    _wait(lambda: all((place / name).exists() for name in PROCESSES), within_s, f"job {job.id} did not start")
    sent = {}
    for word in _SENT:
        sent[word] = time.time()
        ask_slurm(["scancel", f"--signal={word}", job.id])
        _wait_for_signal(place / "function", word)
    (place / "done").touch()
    job.exception(timeout=_LONGEST_S)
    return {name: _delays((place / name).read_text(), sent) for name in PROCESSES}


def record() -> None:
    """Write down, in the job, which process gets which signal."""
    folder = current_run().folder
    if folder is None:
        raise AssertionError("this runs in a job")
    place = folder / "signals"
    place.mkdir()
    program = subprocess.Popen([sys.executable, "-c", _RECORD, str(place / "program")])
    child = os.fork()
    if child == 0:
        _note_signals(place / "forked")
        time.sleep(_LONGEST_S)
        os._exit(0)
    _note_signals(place / "function")
    _wait((place / "done").exists, _LONGEST_S, "nobody asked any more")
    program.kill()
    program.wait()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _note_signals(file: Path) -> None:
    def note(number: int, _frame: object) -> None:
        with file.open("a") as opened:
            opened.write(f"{time.time()} {signal.Signals(number).name[3:]}\n")

    for word in _SENT:
        signal.signal(getattr(signal, f"SIG{word}"), note)
    with file.open("a") as opened:
        opened.write("0 READY\n")


def _wait_for_signal(file: Path, word: str) -> None:
    deadline = time.monotonic() + _ARRIVES_S
    while word not in file.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(_PAUSE_S)


def _delays(text: str, sent: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        moment, _, word = line.partition(" ")
        if word in sent:
            found.setdefault(word, max(0.0, float(moment) - sent[word]))
    return found


def _settings() -> dict[str, str]:
    wanted = ("ProctrackType", "KillWait", "PreemptType", "PreemptMode", "JobRequeue", "SlurmctldParameters")
    pairs = (line.partition("=") for line in ask_slurm(["scontrol", "show", "config"]).splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in wanted}


def _partitions() -> dict[str, dict[str, str]]:
    found = {}
    for line in ask_slurm(["scontrol", "--oneliner", "show", "partition"]).splitlines():
        words = dict(word.partition("=")[::2] for word in line.split())
        if "PartitionName" in words:
            found[words["PartitionName"]] = {name: words.get(name, "") for name in ("PreemptMode", "GraceTime")}
    return found


def _wait(what: Callable[[], bool], within_s: float, otherwise: str) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            raise ClusterUnreachable(f"{otherwise} within {within_s:.0f} s.")
        time.sleep(0.1)
