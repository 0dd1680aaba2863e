"""Let a job wait for others: by ``after=``, or because it takes their results as arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.runtime.call import ResultOf
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.status import State, read_status

if TYPE_CHECKING:
    from helpers.submission.job import Job


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
        after: A job, a job's id or run folder, or a list of these; None for none.
        results: The jobs whose results are arguments.

    Raises:
        InvalidRequest: If one of them has ended without success, or is not a job.
    """
    jobs = list({id(job): job for job in [*_flatten(after), *results]}.values())
    waiting, folders = [], []
    for job in jobs:
        status = read_status(RunFolder(job.folder))
        if status is not None and status.state.is_final and status.state is not State.COMPLETED:
            raise InvalidRequest(
                f"Job {job.id} ({job.name}), which this one would wait for, has ended: {status.state}.",
                hint=f"helpers rerun {job.id}, and wait for the new one",
            )
        folders.append(str(job.folder))
        if status is None or status.state is not State.COMPLETED:
            waiting.append(job.id)
    return Dependencies(job_ids=tuple(waiting), folders=tuple(folders))


def replace_jobs(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], list[Job[Any]]]:
    """Put the place of its result for each job among the arguments, and return the jobs too."""
    jobs: list[Job[Any]] = []

    def replaced(value: Any) -> Any:
        if not _is_job(value):
            return value
        jobs.append(value)
        return ResultOf(str(value.folder))

    return tuple(replaced(arg) for arg in args), {name: replaced(value) for name, value in kwargs.items()}, jobs


def _is_job(value: Any) -> bool:
    from helpers.submission.job import Job

    return isinstance(value, Job)


def _flatten(after: Any) -> list[Job[Any]]:
    from helpers.submission.attach import attach

    if after is None:
        return []
    if _is_job(after):
        return [after]
    if isinstance(after, str | int):
        return [attach(str(after))]
    if isinstance(after, Iterable) and not isinstance(after, Mapping | Future):
        return [job for item in after for job in _flatten(item)]
    raise InvalidRequest(f"after is a job, a job's id, or a list of these; got {after!r}.", hint="after=[job]")
