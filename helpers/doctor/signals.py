"""Find out which processes of a job get which signal on this cluster, and how long a job has to save.

That depends on settings that users cannot see the effect of: the tracking of processes decides whether Slurm
signals the process it has started, its group, or everything below it. So a short job is asked: its process, a
forked child of it and a program that it has started write down what comes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import ClusterUnreachable
from helpers.runtime.current import current_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROCESSES = {"function": "the function's process", "forked": "a forked child", "program": "a program it started"}
_SENT = ("USR2", "TERM")
_PAUSE_S = 3.0  # for a signal to arrive
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
        """Return what it means, in sentences."""
        lines = []
        for process, name in PROCESSES.items():
            came = [f"SIG{word} after {delay * 1e3:.0f} ms" for word, delay in sorted(self.seen[process].items())]
            lines.append(f"{name}: {', '.join(came) or 'no signal'}")
        if not self.seen["function"]:
            lines.append("→ no warning reaches the function here: save often, at most save_every is kept")
        elif self.seen["program"].get("USR2") is not None:
            lines.append("→ programs that the function starts get the warning too, and end of it unless they ignore it")
        wait_s = int("".join(filter(str.isdigit, self.settings.get("KillWait", "30"))) or 30)
        for partition, facts in self.partitions.items():
            if facts["PreemptMode"] not in {"OFF", "DISABLED"}:
                grace_s = int(facts["GraceTime"] or 0)
                lines.append(
                    f"→ {partition}: a preempted job is told by SIGTERM and has {grace_s + wait_s} s to save "
                    f"(GraceTime {grace_s} s, KillWait {wait_s} s)"
                )
        if self.settings.get("JobRequeue") == "0":
            lines.append("→ JobRequeue=0: a job comes back only with --requeue, which is always asked for")
        return lines


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
    place = job.folder / "signals"
    _wait(lambda: all((place / name).exists() for name in PROCESSES), within_s, f"job {job.id} did not start")
    sent = {}
    for word in _SENT:
        sent[word] = time.time()
        subprocess.run(["scancel", f"--signal={word}", job.id], check=False)
        time.sleep(_PAUSE_S)
    (place / "done").touch()
    job.exception(timeout=_LONGEST_S)
    seen = {name: _delays((place / name).read_text(), sent) for name in PROCESSES}
    return SignalReport(seen=seen, settings=_settings(), partitions=_partitions())


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
    os.kill(child, signal.SIGKILL)


def _note_signals(file: Path) -> None:
    def note(number: int, _frame: object) -> None:
        with file.open("a") as opened:
            opened.write(f"{time.time()} {signal.Signals(number).name[3:]}\n")

    for word in _SENT:
        signal.signal(getattr(signal, f"SIG{word}"), note)
    with file.open("a") as opened:
        opened.write("0 READY\n")


def _delays(text: str, sent: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        moment, _, word = line.partition(" ")
        if word in sent:
            found.setdefault(word, max(0.0, float(moment) - sent[word]))
    return found


def _settings() -> dict[str, str]:
    wanted = ("ProctrackType", "KillWait", "PreemptType", "PreemptMode", "JobRequeue", "SlurmctldParameters")
    pairs = (line.partition("=") for line in _ask("scontrol", "show", "config").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in wanted}


def _partitions() -> dict[str, dict[str, str]]:
    found = {}
    for line in _ask("scontrol", "--oneliner", "show", "partition").splitlines():
        words = dict(word.partition("=")[::2] for word in line.split())
        if "PartitionName" in words:
            found[words["PartitionName"]] = {name: words.get(name, "") for name in ("PreemptMode", "GraceTime")}
    return found


def _ask(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterUnreachable(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def _wait(what: Callable[[], bool], within_s: float, otherwise: str) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            raise ClusterUnreachable(f"{otherwise} within {within_s:.0f} s.")
        time.sleep(0.1)


def as_json(report: SignalReport) -> str:
    """Return a report for programs."""
    facts: dict[str, Any] = {"seen": report.seen, "settings": report.settings, "partitions": report.partitions}
    return json.dumps(facts, indent=1)
