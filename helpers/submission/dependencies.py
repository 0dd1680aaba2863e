"""Let a job wait for others: by ``after=``, or because it takes their results as arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.runtime.rank.call import ResultOf
from helpers.runtime.run.description import read_description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, read_status

if TYPE_CHECKING:
    from helpers.submission.jobs.job import Job
    from helpers.submission.sweep import Arguments


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """The jobs that a job waits for.

    Args:
        job_ids: The scheduler's ids of those that have not ended yet.
        folders: The run folders of all: the job itself asks them again before it begins.
    """

    job_ids: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def option(self) -> str | None:
        """The value of ``--dependency``; None where nothing is to be waited for."""
        return f"afterok:{':'.join(self.job_ids)}" if self.job_ids else None


def read_after(after: Any, results: Iterable[Job[Any]] = ()) -> Dependencies:
    """Return what ``after=`` and the jobs among the arguments ask to wait for.

    Our own record of a job's end is asked first: to Slurm a failure that it has forgotten is a success.

    Args:
        after: A job, the id or run folder of a job or of an array (of all its elements), or a list of these; None for
            none.
        results: The jobs whose results are arguments.

    Raises:
        InvalidRequest: If one of them has ended without success, or is not a job.
    """
    jobs = list({id(job): job for job in [*_flatten(after), *results]}.values())
    waiting, folders = [], []
    for job in jobs:
        status = read_status(RunFolder(job.folder))
        if status is not None and status.state.is_unsuccessful:
            raise InvalidRequest(
                f"Job {job.id} ({job.name}), which this one would wait for, has ended: {status.state}.",
                hint=f"helpers rerun {job.id}, and wait for the new one",
            )
        folders.append(str(job.folder))
        if status is None or status.state is not State.COMPLETED:
            waiting.append(job.id)
    return Dependencies(job_ids=tuple(waiting), folders=tuple(folders))


def replace_jobs(calls: Iterable[Arguments]) -> tuple[list[Arguments], list[Job[Any]]]:
    """Put the place of its result for each job among the arguments, and return the jobs too.

    Raises:
        InvalidRequest: If an argument is a whole array of jobs.
    """
    from helpers.submission.jobs.array import JobArray
    from helpers.submission.jobs.job import Job

    jobs: list[Job[Any]] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, JobArray):
            raise InvalidRequest(
                f"An argument stands for one job's result; got an array of {len(value)} jobs.",
                hint="submit(merge, *jobs), for a function merge(*results)",
            )
        if not isinstance(value, Job):
            return value
        jobs.append(value)
        return ResultOf(str(value.folder))

    sent = [
        (tuple(map(replaced, args)), {name: replaced(value) for name, value in kwargs.items()})
        for args, kwargs in calls
    ]
    return sent, jobs


def _is_job(value: Any) -> bool:
    from helpers.submission.jobs.job import Job

    return isinstance(value, Job)


def _flatten(after: Any) -> list[Job[Any]]:
    if after is None:
        return []
    if _is_job(after):
        return [after]
    if isinstance(after, str | int | Path):
        return _attached(after)
    if isinstance(after, Iterable) and not isinstance(after, Mapping | Future):
        return [job for item in after for job in _flatten(item)]
    raise InvalidRequest(
        f"after is a job, its id or run folder, or a list of these; got {after!r}.", hint="after=[job]"
    )


def _attached(job: str | int | Path) -> list[Job[Any]]:
    """Return the job of an id or of a run folder; of an array all its elements.

    Raises:
        InvalidRequest: If an array is not in the queue as a whole: its submission was broken off.
    """
    from helpers.submission.jobs.array import attach_array
    from helpers.submission.jobs.attach import attach, find_folder

    folder = find_folder(job)
    elements = read_description(RunFolder(folder)).elements
    if not elements:
        return [attach(folder)]
    queued = list(attach_array(folder))
    if len(queued) < len(elements):
        raise InvalidRequest(
            f"Of the array {job}, {len(queued)} of {len(elements)} jobs were queued: its submission was broken off.",
            hint="submit it once more, and wait for the new one",
        )
    return queued
