"""Look at a run of another machine or another cluster, through a file system that both see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable
from helpers.runtime.status import State
from helpers.submission.slurm_queue import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.runtime.run_folder import RunFolder


@dataclass(frozen=True)
class Elsewhere:
    """A place that cannot be asked from here: only a run's own folder tells of its end.

    Args:
        name: ``"slurm"`` or ``"local"``.
        place: Slurm's ClusterName, or the machine's host name.
    """

    name: str
    place: str

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Say of each that it has not ended, as far as one can see from here."""
        seen = Observation(state=State.RUNNING, word="ELSEWHERE", reason=f"it runs on {self.place}")
        return dict.fromkeys(job_ids, seen)

    def cancel(self, run: RunFolder, job_id: str) -> None:
        """Leave the mark that a local run's supervisor looks for.

        Raises:
            ClusterUnreachable: For a job of another cluster.
        """
        if self.name == "slurm":
            raise ClusterUnreachable(
                f"Job {job_id} belongs to the cluster {self.place}, which cannot be asked from here.",
                hint=f"on a login node of {self.place}: helpers cancel {job_id}",
            )
        run.cancel_mark.touch()
