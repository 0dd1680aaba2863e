"""Run something again: ``rerun``, a new run from the start; ``resume``, the same run from its checkpoint."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.errors import HelpersError, InvalidRequest
from helpers.runtime.attempt.attempt import ATTEMPT_LINE
from helpers.runtime.attempt.resumption import RESUMED, can_resume, has_started
from helpers.runtime.files import write_whole
from helpers.runtime.rank.call import Calls, write_calls
from helpers.runtime.rank.source import read_source
from helpers.runtime.run.description import Description, read_description, write_description
from helpers.runtime.run.element import array_of, element_folder, script_of
from helpers.runtime.run.folder import RunFolder, check_private, new_run_id, read_private
from helpers.runtime.run.pointer import point_to_run
from helpers.runtime.run.sharing import GROUP, open_to_group
from helpers.runtime.run.status import State, Status, read_ledger, read_status, record_attempt, write_status
from helpers.submission.clusters.choice import queue_of
from helpers.submission.clusters.local import LocalCluster
from helpers.submission.clusters.script import log_path
from helpers.submission.clusters.slurm import SlurmCluster
from helpers.submission.dependencies import read_after
from helpers.submission.jobs.array import attach_array
from helpers.submission.jobs.array_status import id_of, ids_of_elements, parts_of
from helpers.submission.jobs.attach import attach, find_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.submission.jobs.job import Job

_LEAVES_WITHIN_S = 30.0  # a job that has ended may be in the queue for a moment longer
_POLL_S = 0.3
_RESULTS = ("result-*", "exception-*", "first-call.pkl")


def rerun(job: str | int | Path) -> Job[Any]:
    """Submit a run once more: a new run, from the start, with the same call, code, resources and script.

    Args:
        job: The scheduler's id, or a run folder.

    Raises:
        InvalidRequest: If there is no such run here, or it ran in its caller's own process.
        Rejected: If Slurm refuses it.
        ClusterUnreachable: If Slurm does not answer.
    """
    old = _find(job)
    description = _here(old, "rerun")
    if (array := array_of(old)) is not None:
        return _rerun_element(old, array)
    new = RunFolder(old.path.parent / new_run_id())
    _copy(old, new, replace(description, run_id=new.path.name, rerun_of=str(old.path)))
    job_id = _queue_new(new, description)
    record_attempt(new, event="queued", attempt=0, job_id=job_id, step=None)
    print(f"helpers: job {job_id} · {description.name} once more · {new.path}", file=sys.stderr)
    return attach(new.path)


def resume(job: str | int | Path) -> Job[Any]:
    """Go on with a run that has ended: the same run folder, a new id, from its newest checkpoint.

    Args:
        job: The scheduler's id, or a run folder.

    Raises:
        InvalidRequest: If the run has not ended, has succeeded, or has nothing to go on from.
        Rejected: If Slurm refuses it; the run is then as before.
        ClusterUnreachable: If Slurm does not answer.
    """
    run = _find(job)
    description = _here(run, "resume")
    with _alone(run):
        _check_ended(run, description)
        _check_resumable(run, description)
        with _reopened(run):
            job_id = _queue_again(run, description)
        record_attempt(run, event="queued", attempt=_next_attempt(run), job_id=job_id, step=None)
    print(f"helpers: job {job_id} · {description.name} goes on · {run.path}", file=sys.stderr)
    return attach(run.path)


def _find(job: str | int | Path) -> RunFolder:
    return RunFolder(find_folder(job))


def _here(run: RunFolder, verb: str) -> Description:
    """Return what a run is, unless this machine cannot submit it."""
    description = read_description(run)
    if description.cluster == "inline":
        raise InvalidRequest(
            f"{description.name} ran in its caller's own process: there is nothing to {verb}.",
            hint=f"submit({description.function.rpartition('.')[2]}, …)",
        )
    if description.elements:
        raise InvalidRequest(
            f"{description.name} is an array: its elements {verb} one by one.",
            hint=f"helpers {verb} {_element_for(run)}",
        )
    queue = queue_of(description)
    if not isinstance(queue, SlurmCluster | LocalCluster):
        raise InvalidRequest(
            f"{description.name} was submitted on {description.place}, which is not here.",
            hint=f"on {description.place}: helpers {verb} {id_of(run)}",
        )
    source = read_source(description.source)
    if source is not None and source.is_lost:
        raise InvalidRequest(
            f"The code that {description.name} was submitted with is gone: {source.snapshot}",
            hint="submit the call once more: it runs the code as it is now",
        )
    return description


def _element_for(array: RunFolder) -> str:
    """Return the id of the first element that has ended without success; of the first one where there is none."""
    ids = ids_of_elements(parts_of(array))
    for number, job_id in enumerate(ids):
        status = read_status(element_folder(array, number))
        if status is not None and status.state.is_unsuccessful:
            return job_id
    return ids[0] if ids else "JOB_0"


def _queue_new(run: RunFolder, description: Description, *options: str) -> str:
    """Queue a new run with the script of an old one; where that fails, nothing is left of it."""
    try:
        if description.cluster == "local":
            return LocalCluster().queue_array(run, 1, None)[0][0] if options else LocalCluster().queue(run)
        after = read_after(description.after).option
        return SlurmCluster().queue_again(run, run.script, *options, *([f"--dependency={after}"] if after else []))
    except HelpersError:
        shutil.rmtree(run.path)
        raise


def _rerun_element(element: RunFolder, array: RunFolder) -> Job[Any]:
    """Submit an array's element by itself: an array of one, since its script is the array's."""
    number, whole = int(element.path.name), read_description(array)
    new = RunFolder(array.path.parent / new_run_id())
    one = replace(whole, run_id=new.path.name, elements=[whole.elements[number]], max_running=None)
    _copy(array, new, replace(one, rerun_of=str(element.path)))
    write_calls(new, _only(array, number))
    job_id = _queue_new(new, whole, "--array=0")
    record_attempt(new, event="queued", attempt=0, job_id=job_id, elements=1)
    print(f"helpers: job {job_id}_0 · {whole.name} once more · {new.path}", file=sys.stderr)
    return attach_array(new.path)[0]


def _only(array: RunFolder, number: int) -> Calls:
    """Return the calls of an array without all but one; what they hold stays pickled."""
    calls: Calls = pickle.loads(read_private(array.calls))
    return Calls(calls.function, [calls.arguments[number]])


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
    mark = run.resume_mark
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
    if state.is_final and isinstance(queue, LocalCluster):  # its own word is the last thing that a run does here
        return
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
    job_id = ledger[-1]["job_id"] if ledger else status.job_id if status else ""  # an element may never have begun
    number, was_cancelled = _next_attempt(run), run.cancel_mark.exists()
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
        array = array_of(run)
        return LocalCluster().queue(run) if array is None else LocalCluster().queue_element(run, array)
    cluster, options = SlurmCluster(), ["--open-mode=append"]
    if description.element is None:
        return cluster.queue_again(run, script_of(run), *options)
    options += ["--array=0", f"--output={log_path(_log_of(run))}"]  # its own number may be above MaxArraySize
    job_id = f"{cluster.queue_again(run, script_of(run), *options, HELPERS_FIRST_ELEMENT=str(description.element))}_0"
    point_to_run(run, cluster.place, job_id)
    return job_id


def _log_of(element: RunFolder) -> Path:
    """Return where the batch scripts of an array's element print: the first one's file, among the array's logs."""
    log, array = element.batch_log, array_of(element)
    return array.logs / log.readlink().name if array is not None and log.is_symlink() else log
