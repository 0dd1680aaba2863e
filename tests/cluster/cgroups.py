"""Find out whether Slurm can use cgroups here, and remove what it leaves of them.

Slurm 22.05 names a node's cgroups after the node, so the instance's name tells them from everybody else's.
"""

import time
from contextlib import suppress
from pathlib import Path

MOUNT_POINT = Path("/sys/fs/cgroup")
NEEDED = ("cpuacct", "devices", "freezer", "memory")
REMOVAL_S = 5.0


def are_writable(instance: str) -> bool:
    """Tell whether a folder can be made in each version 1 hierarchy that Slurm needs."""
    for controller in NEEDED:
        if not (MOUNT_POINT / controller / "tasks").is_file():
            return False
        probe = MOUNT_POINT / controller / f"slurm_{instance}-probe"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError:
            return False
    return True


def folders_of(nodes: tuple[str, ...]) -> list[Path]:
    """Return the cgroup folders of these nodes, the innermost first."""
    tops = [top for node in nodes for top in MOUNT_POINT.glob(f"*/slurm_{node}")]
    every = [folder for top in tops for folder in (top, *top.rglob("*/"))]
    return sorted(every, key=lambda folder: len(folder.parts), reverse=True)


def members_of(nodes: tuple[str, ...]) -> set[int]:
    """Return the processes in the cgroups of these nodes, also those inside a container."""
    found: set[int] = set()
    for folder in folders_of(nodes):
        with suppress(OSError):
            found.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
    return found


def thaw(nodes: tuple[str, ...]) -> None:
    """Let suspended jobs go on: a frozen process does not even die by SIGKILL."""
    for folder in folders_of(nodes):
        with suppress(OSError):
            (folder / "freezer.state").write_text("THAWED")


def remove(nodes: tuple[str, ...]) -> None:
    """Remove the cgroup folders of these nodes; the kernel frees them a moment after their last process."""
    deadline = time.monotonic() + REMOVAL_S
    while (folders := folders_of(nodes)) and time.monotonic() < deadline:
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()
        time.sleep(0.01)
