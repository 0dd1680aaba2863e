"""Run something again: ``rerun``, a new run from the start; ``resume``, the same run from its checkpoint."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import HelpersError, InvalidRequest
from helpers.runtime.attempt import ATTEMPT_LINE
from helpers.runtime.call import load_call
from helpers.runtime.description import Description, read_description, write_description
from helpers.runtime.element import array_of, script_of
from helpers.runtime.files import write_whole
from helpers.runtime.pointer import point_to_run
from helpers.runtime.resumption import RESUMED, can_resume, has_started
from helpers.runtime.run_folder import RunFolder, check_private, new_run_id
from helpers.runtime.sharing import GROUP, open_to_group
from helpers.runtime.status import State, Status, read_ledger, read_status, record_attempt, write_status
from helpers.submission.attach import attach
from helpers.submission.clusters import queue_of
from helpers.submission.dependencies import read_after
from helpers.submission.local_cluster import LocalCluster
from helpers.submission.slurm_cluster import SlurmCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.submission.job import Job

_LEAVES_WITHIN_S = 30.0  # a job that has ended may be in the queue for a moment longer
_POLL_S = 0.3
_RESULTS = ("result-*", "exception-*", "first-call.pkl")


def rerun(job: str | Path) -> Job[Any]:
    """Submit a run once more: a new run, from the start, with the same call, code, resources and script.

    Args:
        job: The scheduler's id, or a run folder.

    Raises:
        InvalidRequest: If there is no such run here, or it ran in its caller's own process.
        Rejected: If Slurm refuses it.
        ClusterUnreachable: If Slurm does not answer.
    """
    old = _find(job)
    description = _here(read_description(old), "rerun")
    if array_of(old) is not None:
        return _rerun_element(old, description)
    after = read_after(description.after).option
    new = RunFolder(old.path.parent / new_run_id())
    _copy(old, new, replace(description, run_id=new.path.name, rerun_of=str(old.path)))
    try:
        if description.cluster == "slurm":
            options = [f"--dependency={after}"] if after else []
            job_id = SlurmCluster().queue_again(new, new.script, *options)
        else:
            job_id = LocalCluster().queue(new)
    except HelpersError:
        shutil.rmtree(new.path)
        raise
    record_attempt(new, event="queued", attempt=0, job_id=job_id, step=None)
    print(f"helpers: job {job_id} · {description.name} once more · {new.path}", file=sys.stderr)
    return attach(new.path)


def resume(job: str | Path) -> Job[Any]:
    """Go on with a run that has ended: the same run folder, a new id, from its newest checkpoint.

    Args:
        job: The scheduler's id, or a run folder.

    Raises:
        InvalidRequest: If the run has not ended, has succeeded, or has nothing to go on from.
        Rejected: If Slurm refuses it; the run is then as before.
        ClusterUnreachable: If Slurm does not answer.
    """
    run = _find(job)
    description = _here(read_description(run), "resume")
    with _alone(run):
        _check_ended(run, description)
        _check_resumable(run, description)
        with _reopened(run):
            job_id = _queue_again(run, description)
        record_attempt(run, event="queued", attempt=_next_attempt(run), job_id=job_id, step=None)
    print(f"helpers: job {job_id} · {description.name} goes on · {run.path}", file=sys.stderr)
    return attach(run.path)


def _find(job: str | Path) -> RunFolder:
    from helpers.submission.attach import find_folder

    return RunFolder(find_folder(job))


def _here(description: Description, verb: str) -> Description:
    """Refuse what this machine cannot submit."""
    if description.cluster == "inline":
        raise InvalidRequest(
            f"{description.name} ran in its caller's own process: there is nothing to {verb}.",
            hint=f"submit({description.function.rpartition('.')[2]}, …)",
        )
    if description.elements:
        raise InvalidRequest(
            f"{description.name} is an array: its elements {verb} one by one.", hint=f"helpers {verb} JOB_0"
        )
    queue = queue_of(description)
    if not isinstance(queue, SlurmCluster | LocalCluster):
        raise InvalidRequest(
            f"{description.name} was submitted on {description.place}, which is not here.",
            hint=f"on {description.place}: helpers {verb} JOB",
        )
    return description


def _rerun_element(run: RunFolder, description: Description) -> Job[Any]:
    """Submit the call of an array's element by itself: its script is the array's."""
    from helpers.submission.submit import Executor

    before = list(sys.path)
    sys.path += [entry for entry in description.sys_path if entry not in sys.path]  # its modules are to be found
    try:
        call = load_call(run)
    finally:
        sys.path[:] = before
    return Executor(**description.settings).submit(call.function, *call.args, **call.kwargs)


def _copy(old: RunFolder, new: RunFolder, description: Description) -> None:
    """Make the new run's folder: what was submitted, without what came of it."""
    check_private(old.private)
    new.create()
    shutil.copytree(old.private, new.private, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_RESULTS))
    if old.first_call.exists():
        shutil.copy2(old.first_call, new.call)
    if old.changes.exists():
        shutil.copy2(old.changes, new.changes)
    write_description(new, description)
    script = old.script.read_text(encoding="utf-8")
    if old.path.name not in script:
        raise InvalidRequest(f"{old.script} is not the script of this run.", hint="submit the call once more")
    write_whole(new.script, script.replace(old.path.name, new.path.name).encode(), durable=False)
    if description.share == GROUP:
        open_to_group(new)


@contextlib.contextmanager
def _alone(run: RunFolder) -> Iterator[None]:
    """Let one caller at a time take a run up."""
    mark = run.path / "resuming"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise InvalidRequest(f"Somebody is resuming this run just now: {mark}.", hint=f"if not: rm {mark}") from None
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def _check_ended(run: RunFolder, description: Description) -> None:
    """Refuse a run that has not ended, by its own word and the scheduler's."""
    job = attach(run.path)
    state, job_id = State(job.state), job.id
    if state is State.COMPLETED:
        raise InvalidRequest(
            f"Job {job_id} has succeeded: there is nothing to go on with.", hint=f"helpers rerun {job_id}"
        )
    queue, deadline = queue_of(description), time.monotonic() + _LEAVES_WITHIN_S
    while state.is_final and queue is not None:
        seen = queue.observe([job_id]).get(job_id)
        if seen is None or seen.state.is_final:
            _settle(run, job, state)
            return
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    raise InvalidRequest(
        f"Job {job_id} has not ended: it is {state}, and goes on by itself where it can.",
        hint=f"helpers cancel {job_id}, then: helpers resume {job_id}",
    )


def _settle(run: RunFolder, job: Job[Any], state: State) -> None:
    """Wait for the word of a job that only the scheduler has called ended; the watcher writes it down."""
    status = read_status(run)
    if status is None or not status.state.is_final:
        with contextlib.suppress(TimeoutError):
            job.exception(timeout=_LEAVES_WITHIN_S)
    if (status := read_status(run)) is None or not status.state.is_final:
        write_status(run, Status(state=state, job_id=job.id, attempt=job.attempt))


def _check_resumable(run: RunFolder, description: Description) -> None:
    started = any(has_started(run.attempt(number)) for number in run.attempts())
    if started and not can_resume(run, description):
        job_id = read_ledger(run)[-1]["job_id"]
        raise InvalidRequest(
            f"Job {job_id} has saved nothing to go on from.", hint=f"from the start: helpers rerun {job_id}"
        )


def _next_attempt(run: RunFolder) -> int:
    return max(run.attempts(), default=-1) + 1


@contextlib.contextmanager
def _reopened(run: RunFolder) -> Iterator[None]:
    """Take a run's end back; where it cannot be queued, everything is as before."""
    status, ledger = read_status(run), read_ledger(run)
    job_id, number, was_cancelled = ledger[-1]["job_id"], _next_attempt(run), run.cancel_mark.exists()
    run.cancel_mark.unlink(missing_ok=True)
    record_attempt(run, event=RESUMED, attempt=number, job_id=job_id)
    with run.batch_log.open("a", encoding="utf-8") as log:
        log.write(f"{ATTEMPT_LINE}{number} is asked for by hand\n")
    write_status(run, Status(state=State.PENDING, job_id=job_id, attempt=max(number - 1, 0)))
    try:
        yield
    except BaseException:
        if was_cancelled:
            run.cancel_mark.touch()
        if status is not None:
            write_status(run, status)
        raise


def _queue_again(run: RunFolder, description: Description) -> str:
    if description.cluster == "local":
        if description.element is not None:
            raise InvalidRequest("An element of an array on this machine cannot be resumed.", hint="helpers rerun JOB")
        return LocalCluster().queue(run)
    cluster, options = SlurmCluster(), ["--open-mode=append"]
    if description.element is None:
        return cluster.queue_again(run, script_of(run), *options)
    options.append("--array=0")  # its own number may be above MaxArraySize
    job_id = f"{cluster.queue_again(run, script_of(run), *options, HELPERS_FIRST_ELEMENT=str(description.element))}_0"
    point_to_run(run, cluster.place, job_id)
    return job_id
