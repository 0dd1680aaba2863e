"""Know which processes are the cluster's, and end exactly those.

A process id alone proves nothing: ids are used again. What proves it is the start time that was recorded with
the id, or that the process sees this cluster's own hosts file as ``/etc/hosts``: slurmstepd and the jobs
inherit that from the node, whatever they do to their environment, session or parent.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; ``None`` if it has ended, also as a zombie."""
    try:
        # The name may hold spaces and brackets, so count from the last bracket: state is field 3, start 22.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def identity(pid: int) -> str:
    """Return what ``alive`` recognises this very process by."""
    return f"{pid} {start_time(pid)}"


def alive(recorded: str) -> int | None:
    """Return the id of the process that ``identity`` described, if it still runs."""
    pid, _, started = recorded.partition(" ")
    return int(pid) if pid.isdigit() and str(start_time(int(pid))) == started.strip() else None


def recorded_in(folder: Path) -> set[int]:
    """Return the running processes among those whose identities are the files of this folder."""
    found = (alive(file.read_text()) for file in folder.glob("*"))
    return {pid for pid in found if pid is not None}


def seeing(hosts: Path) -> set[int]:
    """Return the processes in whose mount namespace this file is ``/etc/hosts``."""
    if not hosts.exists():
        return set()
    found = set()
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "root/etc/hosts").samefile(hosts):
                    found.add(int(entry.name))
    return found - {os.getpid()}


def end_all(find: Callable[[], set[int]], *, within_s: float) -> set[int]:
    """Kill what ``find`` finds until it finds nothing: a process may fork while it is looked for.

    Returns:
        Who is still there after ``within_s`` seconds.
    """
    deadline = time.monotonic() + within_s
    while (found := find()) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return found
