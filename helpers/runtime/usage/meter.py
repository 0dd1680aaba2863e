"""Measure in each rank what it uses: CPU time, memory and GPUs of its processes, in a light thread.

It looks a second after the start, then after 2, 4, 8, … seconds, and once a minute in the end; each look costs
a few milliseconds. What it has seen is written down each time, so that a rank that is killed leaves something, too.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import HelpersError
from helpers.runtime.files import write_json
from helpers.runtime.gpus.visible import usable_gpus

if TYPE_CHECKING:
    import psutil

    from helpers.runtime.gpus.nvml import Gpu

_FIRST_LOOK_S = 1.0  # not while the function's modules are imported
_LONGEST_PAUSE_S = 60.0
_KIB_PER_MIB = 2**10
_MIB = 2**20
_SHARE = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass
class _Gpu:
    """What was seen of one GPU."""

    name: str
    busy: list[int] = field(default_factory=list)
    peak_mb: int = 0

    def add(self, gpu: Gpu) -> None:
        self.peak_mb = max(self.peak_mb, gpu.used_mb or 0)
        if gpu.busy_percent is not None:
            self.busy.append(gpu.busy_percent)

    def as_record(self, uuid: str) -> dict[str, Any]:
        mean = sum(self.busy) / len(self.busy) if self.busy else None
        return {"uuid": uuid, "name": self.name, "busy_percent": mean, "peak_mb": self.peak_mb, "looks": len(self.busy)}


class UsageMeter:
    """Looks after this process and all that it starts.

    Args:
        path: Where what was seen is written, as JSON.
        with_gpus: Whether this process looks at the GPUs, too: one on each node does.
    """

    def __init__(self, path: Path, *, with_gpus: bool) -> None:
        self._path = path
        self._with_gpus = with_gpus
        self._cpu_s = 0.0
        self._peak_mb = 0.0
        self._gpus: dict[str, _Gpu] = {}
        self._done = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to look, in a thread of its own."""
        threading.Thread(target=self._look_again_and_again, name="helpers-usage", daemon=True).start()

    def finish(self) -> None:
        """Look for the last time; a disk that is full, or gone, is no reason to fail."""
        self._done.set()
        self._look()

    def _look_again_and_again(self) -> None:
        pause_s = _FIRST_LOOK_S
        while not self._done.wait(pause_s):
            if self._with_gpus:
                self._look_at_gpus()
            self._look()
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _look_at_gpus(self) -> None:
        """Ask the driver, outside the lock: it may take its time. Where there is none, or it is broken, nothing is."""
        with contextlib.suppress(HelpersError, ImportError):
            seen = [gpu for gpu in usable_gpus(os.environ) if gpu.used_mb is not None]
            with self._lock:
                for gpu in seen:
                    self._gpus.setdefault(gpu.uuid, _Gpu(gpu.name)).add(gpu)

    def _look(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            cpu_s, mem_mb = _read_processes()
            self._cpu_s = max(self._cpu_s, cpu_s)
            self._peak_mb = max(self._peak_mb, mem_mb, _peak_of_one_mb())
            gpus = [gpu.as_record(uuid) for uuid, gpu in self._gpus.items()]
            record = {"node": platform.node(), "cpu_s": round(self._cpu_s, 2), "peak_mb": round(self._peak_mb)}
            write_json(self._path, {**record, "gpus": gpus}, durable=False)


def _read_processes() -> tuple[float, float]:
    """Return the CPU seconds and the MiB of this process and of all below it; what has ended counts its seconds."""
    import psutil  # the start of a rank does without

    cpu_s, mem_mb = sum(os.times()[:4]), 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            mem_mb += _memory_mb(process)
            if process is not own:
                cpu_s += sum(process.cpu_times()[:4])
    return cpu_s, mem_mb


def _memory_mb(process: psutil.Process) -> float:
    """Return a process's share of the memory: what forked workers have in common counts once."""
    try:
        found = _SHARE.search(Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii"))
    except OSError:
        found = None
    return int(found[1]) / _KIB_PER_MIB if found else process.memory_info().rss / _MIB


def _peak_of_one_mb() -> float:
    """Return the peak of this process, or of the largest below it that has ended: no look misses that."""
    whom = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    unit = _KIB_PER_MIB if platform.system() == "Linux" else _MIB  # getrusage(2): KiB; of macOS: bytes
    return max(resource.getrusage(one).ru_maxrss for one in whom) / unit
