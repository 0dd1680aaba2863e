"""Find a run by the scheduler's id: ``runs/.jobs/<cluster>-<job id>`` holds the path of the run folder."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from helpers.runtime.files import write_whole
from helpers.runtime.run.element import find_runs_folder

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.runtime.run.folder import RunFolder

POINTERS = ".jobs"


def point_to_run(run: RunFolder, cluster: str, job_id: str) -> None:
    """Write the pointer: by the caller as soon as it knows the id, and again by the job.

    Whichever comes first makes the run findable; a caller that dies right after ``sbatch`` loses nothing.

    Args:
        run: The run's files.
        cluster: Slurm's own ``ClusterName``, or ``"local"``: two clusters give the same ids.
        job_id: The scheduler's id.
    """
    runs = find_runs_folder(run)
    folder = runs / POINTERS
    folder.mkdir(exist_ok=True)
    pointer = folder / f"{cluster}-{_number(job_id)}"
    target = f"{run.path.relative_to(runs)}\n"
    if not pointer.exists() or pointer.read_text(encoding="utf-8") != target:
        write_whole(pointer, target.encode(), durable=False)
        with contextlib.suppress(OSError):
            pointer.chmod(0o644)  # it tells a name; who may see it, the folders say


def find_run(runs: Path, job_id: str) -> Path | None:
    """Return the run folder of a job id; None where this runs folder does not know it.

    Where several clusters gave the same id, the newest run is taken.
    """
    local = job_id.startswith("local-")
    named = [path for path in (runs / POINTERS).glob("*") if _number(path.name) == _number(job_id)]
    candidates = [path for path in named if path.name.startswith("local-") == local]
    candidates.sort(key=lambda path: path.stat().st_mtime)
    return runs / candidates[-1].read_text(encoding="utf-8").strip() if candidates else None


def _number(job_id: str) -> str:
    """Return ``1234`` of ``local-1234``, ``4711_3`` of ``4711_3``."""
    return job_id.rpartition("-")[2]
