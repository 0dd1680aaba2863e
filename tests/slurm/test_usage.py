"""What a job has used, told by a real Slurm's job."""

import json
from pathlib import Path

from helpers import submit


def hold_memory(mebibytes: int) -> int:
    """Touch each page, so that it is there; and work on it, so that a CPU is."""
    held = bytearray(mebibytes << 20)
    held[::4096] = b"1" * len(held[::4096])
    return sum(held[::4096])


def test_what_was_left_open_is_told_as_slurm_gave_it(client: Path) -> None:
    """The lines stand in the log once, and the run folder has them for programs; the kernel's count is believed."""
    job = submit(hold_memory, 200, processes=2, cpus=2, mem="1500M", time="40min", cluster="slurm")
    job.result(120)
    log = job.logs()
    assert [log.count(f"[helpers] {word}: ") for word in ("asked", "used", "next time")] == [1, 1, 1]
    assert "[helpers] asked: 4 CPUs · 1.5G · 40min\n" in log
    record = json.loads((job.folder / "usage.json").read_text())
    assert 200 < record["used"]["mem_mb"] < 1500  # one rank may be done before the other holds its own
    assert "cpus=1" in record["lines"][2]
