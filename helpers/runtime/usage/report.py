"""Say at the end of an attempt what was asked for, what was used, and what to ask for next time."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from helpers.runtime.attempt.total_time import LEASED
from helpers.runtime.current import END_TIME_VARIABLE
from helpers.runtime.files import read_json, write_json
from helpers.runtime.run.status import State, read_ledger
from helpers.runtime.usage.few_steps import say_few_steps
from helpers.runtime.usage.peak_memory import peak_on_this_node
from helpers.runtime.usage.words import count_words, memory_words, span_words, time_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.runtime.attempt.attempt import Conclusion
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder

_SPARE = 1.25  # next time's memory and CPUs, over what was used
_SPARE_TIME = 1.5
_TOO_MUCH = 2  # what was asked for is worth a word where it is this many times what is needed
_LEAST_MB, _LEAST_MIN = 512, 10
_STEPS_MIN = ((60, 10), (360, 30), (math.inf, 60))  # up to an hour by 10 minutes, …
_FEW_LOOKS = 5  # by then half a minute has passed: a GPU that was idle so far may only be late
_GIB_MB = 1024
_UNITS_MB = {"M": 1, "G": 1024}


@dataclass(frozen=True, kw_only=True)
class Given:
    """What an attempt had.

    Args:
        processes: Ranks in all.
        nodes: Machines.
        gpus: In all.
        cpus: In all; None where nobody says.
        mem_mb: Host memory on each node, in MiB; None where nobody says.
        time_min: Its limit, in minutes; None where there is none.
    """

    processes: int
    nodes: int
    gpus: int
    cpus: int | None = None
    mem_mb: int | None = None
    time_min: int | None = None

    def line(self) -> str:
        """Return the words after ``asked:``."""
        parts = [
            count_words(self.processes, "process", "processes") if self.cpus is None else count_words(self.cpus, "CPU")
        ]
        if self.mem_mb is not None:
            parts.append(memory_words(self.mem_mb) + (f" on each of {self.nodes} nodes" if self.nodes > 1 else ""))
        parts += [count_words(self.gpus, "GPU")] if self.gpus else []
        parts += [time_words(self.time_min)] if self.time_min is not None else []
        return " · ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Used:
    """What an attempt used.

    Args:
        seconds: From its start to its end.
        cpus: CPUs that were busy on average, in all.
        mem_mb: The most memory that was in use on one node, in MiB; None where no rank could tell.
        gpus: One record for each GPU that could be looked at: ``uuid``, ``name``, ``busy_percent``, ``peak_mb``.
    """

    seconds: float
    cpus: float | None = None
    mem_mb: int | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)

    @property
    def gpu_percent(self) -> float | None:
        """How busy the GPUs were on average; None where nobody could look."""
        busy = [gpu["busy_percent"] for gpu in self.gpus if gpu["busy_percent"] is not None]
        return sum(busy) / len(busy) if busy else None

    def line(self) -> str:
        """Return the words after ``used:``."""
        parts = [] if self.cpus is None else [f"{self.cpus:.1f} CPUs"]
        parts += [f"peak {memory_words(self.mem_mb)}"] if self.mem_mb is not None else []
        parts += [f"GPU {self.gpu_percent:.0f} %"] if self.gpu_percent is not None else []
        return " · ".join([*parts, span_words(self.seconds)])


def say_usage(run: RunFolder, description: Description, attempt: int, conclusion: Conclusion) -> None:
    """Record what an attempt had and used (``usage.json``), and say it in three lines, on stderr.

    A file that cannot be read or written changes nothing of how the attempt has ended.

    Args:
        run: The run's files.
        description: What was submitted.
        attempt: The attempt's number.
        conclusion: What became of it.
    """
    with contextlib.suppress(OSError, ValueError):
        record = _report(run, description, attempt, conclusion)
        for line in record["lines"]:
            print(f"[helpers] {line}", file=sys.stderr, flush=True)
        write_json(run.usage, record, durable=False)


def _report(run: RunFolder, description: Description, attempt: int, conclusion: Conclusion) -> dict[str, Any]:
    ledger = [line for line in read_ledger(run) if line.get("attempt") == attempt]
    started = [line["time"] for line in ledger if line["event"] in {"start", LEASED}]
    begun = started[-1] if started else None
    given = read_given(description, os.environ, begun=begun)
    used = read_used(run, description, attempt, seconds=time.time() - begun if begun else 0.0)
    if conclusion.ending.peak is not None:  # the memory was too little: the kernel's count is what matters
        used = replace(used, mem_mb=conclusion.ending.peak.mem_mb)
    advice = advise(given, used, conclusion.state, is_first=attempt == 0)
    lines = [f"asked: {given.line()}", f"used: {used.line()}", *([f"next time: {advice}"] if advice else [])]
    if conclusion.state is State.REQUEUED:
        limit_min = given.time_min
        lines += say_few_steps(read_ledger(run), attempt, limit_min, seconds=used.seconds, step=conclusion.step)
    return {"attempt": attempt, "asked": asdict(given), "used": asdict(used), "lines": lines}


def read_given(description: Description, environment: Mapping[str, str], *, begun: float | None = None) -> Given:
    """Return what was asked for, and where that was left open, what Slurm gave.

    Args:
        description: What was submitted.
        environment: That of the batch script.
        begun: When the attempt began, in seconds since the epoch.
    """
    asked = description.resources
    cpus = int(asked["cpus"]) * description.processes if "cpus" in asked else _cpus_of_job(environment)
    memory, end = asked.get("mem") or environment.get("SLURM_MEM_PER_NODE"), environment.get(END_TIME_VARIABLE)
    time_min = description.time_min
    if time_min is None and end and begun is not None:
        time_min = round((float(end) - begun) / 60)
    return Given(
        processes=description.processes,
        nodes=description.nodes,
        gpus=description.gpus,
        cpus=cpus,
        mem_mb=_memory_mb(memory),
        time_min=time_min,
    )


def read_used(run: RunFolder, description: Description, attempt: int, *, seconds: float) -> Used:
    """Add up what the ranks have seen; the kernel's count of the job's memory corrects them, where it is lower."""
    files = run.attempt(attempt)
    ranks = [record for rank in range(description.processes) if (record := read_json(files.usage(rank))) is not None]
    if not ranks or seconds <= 0:
        return Used(seconds=seconds)
    by_node: dict[str, int] = {}
    for record in ranks:
        by_node[record["node"]] = by_node.get(record["node"], 0) + record["peak_mb"]
    mem_mb = max(by_node.values())
    counted = peak_on_this_node() if description.nodes == 1 else None
    if counted is not None:
        mem_mb = min(mem_mb, counted.mem_mb)  # it has files in it that were kept; ours counts shared pages twice
    gpus = {gpu["uuid"]: gpu for record in ranks for gpu in record["gpus"]}
    cpus = sum(record["cpu_s"] for record in ranks) / seconds
    return Used(seconds=seconds, cpus=round(cpus, 2), mem_mb=mem_mb, gpus=list(gpus.values()))


def advise(given: Given, used: Used, state: State, *, is_first: bool) -> str:
    """Return keywords for the next submission, or that what was asked for fits; empty where nothing can be told.

    Args:
        given: What the attempt had.
        used: What it used.
        state: What became of it: only one that has done its work tells what the work takes.
        is_first: Whether all of the work was done in this attempt.
    """
    if state is State.REQUEUED:
        return "it goes on in another attempt"
    if state is not State.COMPLETED:
        return ""
    parts = [_gpus(given, used), _cpus(given, used), _memory(given, used)]
    parts += [_time(given, used)] if is_first else []
    return ", ".join(filter(None, parts)) or "what was asked for fits"


def _gpus(given: Given, used: Used) -> str:
    """Return the GPUs that were busy at all, where all were looked at for long enough."""
    looked_at = [gpu for gpu in used.gpus if gpu["busy_percent"] is not None and gpu["looks"] >= _FEW_LOOKS]
    busy = sum(gpu["busy_percent"] > 0 for gpu in looked_at)
    return f"gpus={busy}" if given.gpus and len(looked_at) == given.gpus > busy else ""


def _cpus(given: Given, used: Used) -> str:
    if given.cpus is None or used.cpus is None:
        return ""
    had, needed = given.cpus // given.processes, max(1, math.ceil(used.cpus * _SPARE / given.processes))
    return f"cpus={needed}" if had >= needed * _TOO_MUCH else ""


def _memory(given: Given, used: Used) -> str:
    if given.mem_mb is None or used.mem_mb is None:
        return ""
    needed = _rounded_up_mb(max(_LEAST_MB, used.mem_mb * _SPARE))
    fits = needed <= given.mem_mb < needed * _TOO_MUCH
    return "" if fits else f'mem="{memory_words(needed)}"'


def _time(given: Given, used: Used) -> str:
    if given.time_min is None:
        return ""
    needed = max(_LEAST_MIN, math.ceil(used.seconds / 60 * _SPARE_TIME))
    step = next(step for longest, step in _STEPS_MIN if needed <= longest)
    needed = math.ceil(needed / step) * step
    return f'time="{time_words(needed)}"' if given.time_min >= needed * _TOO_MUCH else ""


def _cpus_of_job(environment: Mapping[str, str]) -> int | None:
    """Read ``SLURM_JOB_CPUS_PER_NODE``, such as ``8(x2),4``."""
    words = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return sum(int(cpus) * int(nodes or 1) for cpus, nodes in words) or None


def _memory_mb(text: str | None) -> int | None:
    """Read ``64G``, ``500M`` (as a description has it), or Slurm's MiB."""
    match = re.fullmatch(r"(\d+)([MG]?)", text or "")
    return int(match[1]) * _UNITS_MB[match[2] or "M"] if match else None


def _rounded_up_mb(size_mb: float) -> int:
    unit = _GIB_MB if size_mb > _GIB_MB else _LEAST_MB
    return math.ceil(size_mb / unit) * unit
