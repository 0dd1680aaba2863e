"""Answer what a function wants to know about the run that it is part of."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from helpers.runtime import stop
from helpers.runtime.files import write_json
from helpers.runtime.rank.place import Ranks, read_ranks
from helpers.runtime.run.folder import AttemptFolder, RunFolder

RUN_VARIABLE = "HELPERS_RUN"  # absolute path of the run folder
ATTEMPT_VARIABLE = "HELPERS_ATTEMPT"  # counted by us, from 0
LOCAL_ID_VARIABLE = "HELPERS_LOCAL_ID"  # the job id where there is no scheduler
GPUS_VARIABLE = "HELPERS_GPUS"  # how many the job asked for in all
END_TIME_VARIABLE = "HELPERS_END_TIME"  # seconds since the epoch; not set where there is no limit


@dataclass(frozen=True, kw_only=True)
class Run:
    """The run that this process is part of.

    Args:
        folder: The run folder, the same for all ranks and attempts; None outside a job.
        ranks: The place of this process among those started together.
        attempt: Which start of the job this is, from 0.
        end_time: When the time limit is reached, in seconds since the epoch; None where there is none.
    """

    folder: Path | None
    ranks: Ranks
    attempt: int
    end_time: float | None

    @property
    def rank(self) -> int:
        """Number of this process among all, from 0."""
        return self.ranks.rank

    @property
    def local_rank(self) -> int:
        """Number of this process among those of its node, from 0."""
        return self.ranks.local_rank

    @property
    def world_size(self) -> int:
        """Processes in all."""
        return self.ranks.world_size

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the one that prints and writes."""
        return self.rank == 0

    @property
    def files(self) -> RunFolder | None:
        """The named files of the run folder; None outside a job."""
        return None if self.folder is None else RunFolder(self.folder)

    @property
    def attempt_files(self) -> AttemptFolder | None:
        """The named files of this attempt; None outside a job."""
        return None if self.files is None else self.files.attempt(self.attempt)

    def time_left(self) -> float | None:
        """Return the seconds until the time limit; None where there is none."""
        return None if self.end_time is None else max(0.0, self.end_time - time.time())

    def stop_requested(self) -> bool:
        """Say whether the scheduler has asked this process to stop."""
        return stop.stop_requested()

    def ask_for_requeue(self, *, step: int) -> None:
        """Leave the mark on which the batch script requeues the job.

        Rank 0 calls this, once the state of *every* rank at ``step`` is durable. Outside a job it does
        nothing.
        """
        if self.attempt_files is not None:
            write_json(self.attempt_files.requeue_mark, {"step": step, "time": time.time()})


def current_run() -> Run:
    """Return the run that this process is part of.

    Outside a job: rank 0 of 1 (or what ``torchrun`` or ``srun`` say), attempt 0, no folder, no time limit.
    """
    environment = os.environ
    return _read_run(
        environment.get(RUN_VARIABLE),
        environment.get(ATTEMPT_VARIABLE, "0"),
        environment.get(END_TIME_VARIABLE),
        read_ranks(environment),
    )


@functools.lru_cache(maxsize=8)
def _read_run(folder: str | None, attempt: str, end_time: str | None, ranks: Ranks) -> Run:
    return Run(
        folder=Path(folder) if folder else None,
        ranks=ranks,
        attempt=int(attempt),
        end_time=float(end_time) if end_time else None,
    )
