"""End the processes that a function has left behind: they would hold the allocation."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_KILLED_AFTER_S = 2
_OF_POOL = "PoolWorker"  # in the name of its process (multiprocessing/pool.py)


def end_children() -> None:
    """End all processes that come from this one."""
    _end(psutil.Process().children(recursive=True))


def end_workers() -> None:
    """End multiprocessing's children, and theirs: Python's own end would wait for them.

    Not those of a ``Pool``: it ends them itself, and waits for a lock that one may hold which is killed.
    """
    module = sys.modules.get("multiprocessing.process")
    found: list[psutil.Process] = []
    children = module.active_children() if module else ()
    for child in (child for child in children if _OF_POOL not in child.name):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(child.pid)
            found += [process, *process.children(recursive=True)]
    _end(found)


def _end(processes: Iterable[psutil.Process]) -> None:
    children = [child for child in processes if not _ends_with_us(child)]
    if not children:
        return
    print(f"Child processes still alive when the function ended: {len(children)}; ended.", file=sys.stderr)
    end_all(children)


def end_all(processes: Sequence[psutil.Process]) -> None:
    """Ask processes to end, and kill after two seconds what has not."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(processes, timeout=_KILLED_AFTER_S)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _ends_with_us(child: psutil.Process) -> bool:
    """Say whether it is one of Python's own, which end when their pipe from this process closes."""
    try:
        if child.ppid() != os.getpid():
            return False  # a worker bears the name of the fork server that it comes from
        words = " ".join(child.cmdline())
    except psutil.Error:
        return True
    return "from multiprocessing.forkserver import" in words or "from multiprocessing.resource_tracker import" in words
