"""Look at a run of another machine or another cluster, through a file system that both see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from helpers.errors import ClusterUnreachable
from helpers.runtime.run.status import State
from helpers.submission.clusters.slurm_queue import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from helpers.runtime.run.folder import RunFolder


@dataclass(frozen=True)
class Elsewhere:
    """A place that cannot be asked from here: only a run's own folder tells of its end.

    Args:
        name: ``"slurm"`` or ``"local"``.
        place: Slurm's ClusterName, or the machine's host name.
    """

    name: str
    place: str
    answer_serves_s: ClassVar[float] = 0.0

    def observe(self, job_ids: Iterable[str]) -> dict[str, Observation]:
        """Say of each that it has not ended, as far as one can see from here."""
        seen = Observation(state=State.RUNNING, word="ELSEWHERE", reason=f"it runs on {self.place}")
        return dict.fromkeys(job_ids, seen)

    def cancel(self, runs: Mapping[str, RunFolder]) -> None:
        """Leave the mark that a local run's supervisor looks for.

        Raises:
            ClusterUnreachable: For a job of another cluster.
        """
        if self.name == "slurm":
            job_id = next(iter(runs))
            raise ClusterUnreachable(
                f"Job {job_id} belongs to the cluster {self.place}, which cannot be asked from here.",
                hint=f"on a login node of {self.place}: helpers cancel {job_id}",
            )
        for run in runs.values():
            run.cancel_mark.touch()
