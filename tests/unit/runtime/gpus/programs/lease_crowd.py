"""A crowd that leases four stand-in GPUs, while its members are killed at random: ``FOLDER MEMBERS LEASES KILLS``.

Each member must get its leases, however often it is killed and begun again. Beside the queue each GPU has a file that
its holder locks: a second holder cannot, and says so. These are opened before the ticket, since the kernel closes
a killed process's files in the order of their numbers. Prints what happened, as JSON.
"""

import fcntl
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from helpers.runtime.gpus.lease import new_ticket, wait_for_gpus
from helpers.runtime.gpus.nvml import Gpu
from helpers.runtime.gpus.queue import GpuQueue

GPUS = [Gpu(uuid=f"GPU-{index}", index=str(index)) for index in range(4)]
DOUBLE = 3


def lease_often(folder: Path, member: int) -> int:
    """Be one member, until it has had its leases; return the exit code."""
    witnesses = {gpu.uuid: os.open(folder / gpu.uuid, os.O_RDWR | os.O_CREAT) for gpu in GPUS}
    done = folder / f"done-{member}"
    queue = GpuQueue(folder / "leases")
    choice = random.Random(os.getpid())  # noqa: S311 -- no secret
    while len(done.read_bytes()) < LEASES:
        ticket = new_ticket({}, GPUS, job=f"local-{member}", folder="", wants=choice.choice([1, 1, 1, 2, 4]))
        lease = wait_for_gpus(
            queue, ticket, is_stopped=lambda: False, tell=lambda _: None, ask_driver=lambda: GPUS, poll_s=0.03
        )
        if lease is None:
            return 1
        for uuid in lease.ticket.held:
            try:
                fcntl.flock(witnesses[uuid], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return DOUBLE
        time.sleep(choice.random() * 0.005)
        with done.open("ab") as count:
            count.write(b".")
        for uuid in lease.ticket.held:
            fcntl.flock(witnesses[uuid], fcntl.LOCK_UN)
        lease.give_back()
    return 0


def begin(folder: Path, member: int) -> int:
    """Start a member, and return its process id."""
    pid = os.fork()
    if pid == 0:
        os._exit(lease_often(folder, member))
    return pid


def main(folder: Path, members: int, kills: int) -> None:
    """Start them, kill some, begin those again, and wait for all."""
    for member in range(members):
        (folder / f"done-{member}").touch()
    running = {begin(folder, member): member for member in range(members)}
    killed, wrong, next_kill = 0, [], time.monotonic()
    while running:
        if killed < kills and time.monotonic() >= next_kill:
            os.kill(random.choice(list(running)), signal.SIGKILL)  # noqa: S311
            killed, next_kill = killed + 1, time.monotonic() + random.random() * 0.1  # noqa: S311
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.01)
            continue
        member, code = running.pop(pid), os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL:
            running[begin(folder, member)] = member
        elif code != 0:
            wrong.append(code)
    leases = sum(len((folder / f"done-{member}").read_bytes()) for member in range(members))
    left = [ticket.job for ticket in GpuQueue(folder / "leases").look()]
    print(json.dumps({"leases": leases, "killed": killed, "wrong": wrong, "left": left}))


LEASES = int(sys.argv[3])
main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]))
