"""Stay with a job until it ends: what it prints on stdout, what becomes of it on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from helpers.cli.report import INTERRUPTED, JOB_FAILED, note, show_error
from helpers.errors import ClusterUnreachable, JobError
from helpers.runtime.rank.traceback_text import traceback_text
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, read_ledger, read_status
from helpers.submission.jobs.endings import RemoteTraceback, exception_of
from helpers.submission.jobs.logs import Follower, attempt_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.submission.jobs.job import Job

_POLL_S = 0.2
_FIRST_QUESTION_S = 1.0
_QUESTION_EVERY_S = 15.0
_REMEMBERED = 65536  # characters of the log, to know whether a traceback has been shown


@dataclass
class _Story:
    """What has been said of a job so far: why it waits, where each attempt runs, why one ended."""

    job: Job[Any]
    told: int = 0
    reason: str = ""
    next_question: float = field(default_factory=lambda: time.monotonic() + _FIRST_QUESTION_S)

    def tell_news(self) -> None:
        """Print what the ledger says that has not been said."""
        if self.job.description.cluster == "inline":
            return  # it has ended before it could be watched
        ledger = read_ledger(RunFolder(self.job.folder))
        for line in ledger[self.told :]:
            if line["event"] == "start":
                begun_from = f", from {line['checkpoint']}" if line.get("checkpoint") else ""
                note(f"attempt {line['attempt']} runs on {line['nodes']}{begun_from}")
            elif line["event"] == "end" and line["state"] == State.REQUEUED:
                note(f"attempt {line['attempt']} ended ({line['cause']}), saved at step {line.get('step')}; it goes on")
        self.told = len(ledger)
        if ledger and ledger[-1]["event"] != "start":
            self._tell_why_it_waits()

    def _tell_why_it_waits(self) -> None:
        if time.monotonic() < self.next_question:
            return
        self.next_question = time.monotonic() + _QUESTION_EVERY_S
        reason = ""
        with contextlib.suppress(ClusterUnreachable):  # the watcher says so
            if self.job.state == State.PENDING:
                reason = self.job.reason
        if reason and reason != self.reason:
            note(f"job {self.job.id} waits: {reason}")
        self.reason = reason


def wait_for_result(job: Job[Any], *, with_logs: bool) -> None:
    """Wait for the end; print what the function returned, unless None, or why it failed.

    Raises:
        typer.Exit: With 1 if the job failed, with 130 after Ctrl-C.
    """
    with interruption_explained(job):
        shown = _stay(job, rank=0, with_logs=with_logs)
    error = job.exception()
    if error is not None:
        _show_failure(job, error, shown)
        raise typer.Exit(JOB_FAILED)
    note(f"job {job.id} completed")
    value = job.result()
    if value is not None and not job.description.command:  # a program has spoken for itself
        typer.echo(repr(value))


def follow_logs(job: Job[Any], *, rank: int, attempt: int | None = None) -> None:
    """Print what ``rank`` prints until the end; the value that the function returns is not loaded.

    Raises:
        typer.Exit: With 1 if the job failed, with 130 after Ctrl-C.
    """
    with interruption_explained(job):
        shown = _stay(job, rank=rank, with_logs=True, attempt=attempt)
    if not job.done():
        note(f"attempt {attempt} has ended; job {job.id} goes on")
        return
    run = RunFolder(job.folder)
    status = read_status(run)
    if status is not None and status.state is not State.COMPLETED:
        raised_here = job.exception() if job.description.cluster == "inline" else None  # with its frames
        _show_failure(job, raised_here or exception_of(run, job.description, status), shown)
        raise typer.Exit(JOB_FAILED)
    note(f"job {job.id} completed")


@contextlib.contextmanager
def interruption_explained(job: Job[Any]) -> Iterator[None]:
    """Say at Ctrl-C that the job goes on, and how to come back to it."""
    try:
        yield
    except KeyboardInterrupt:
        print(file=sys.stderr)
        note(f"job {job.id} goes on; back to it: helpers logs -f {job.id}   end it: helpers cancel {job.id}")
        raise typer.Exit(INTERRUPTED) from None


def _stay(job: Job[Any], *, rank: int, with_logs: bool, attempt: int | None = None) -> str:
    """Show the job's story, and its log, until it ends; return the end of what was shown."""
    story, follower, shown = _Story(job), Follower(RunFolder(job.folder), rank=rank, attempt=attempt), ""
    while True:
        ended = job.done() or (attempt is not None and attempt_ended(RunFolder(job.folder), attempt))
        story.tell_news()
        for text in follower.new_text() if with_logs else ():
            typer.echo(text, nl=False)
            shown = (shown + text)[-_REMEMBERED:]
        if ended:
            break
        time.sleep(_POLL_S)
    if shown and not shown.endswith("\n"):
        typer.echo()
    return shown


def _show_failure(job: Job[Any], error: BaseException, shown: str) -> None:
    """Print the job's own traceback, unless its log has just shown it, and then what happened in a line."""
    remote = _traceback_of(error)
    if remote.strip() and remote.strip() not in shown:
        print(remote.rstrip(), file=sys.stderr)
    if isinstance(error, JobError):
        if _was_shown(error.facts.log_tail, shown) or remote:
            error.facts = replace(error.facts, log_tail="")
        if shown and error.hint == f"helpers logs {job.id}":
            error.hint = ""  # they have just been shown
        show_error(error)
        return
    print(f"error: job {job.id} raised {type(error).__name__}: {error}", file=sys.stderr)
    for line in getattr(error, "__notes__", []):
        print(line, file=sys.stderr)


def _was_shown(log_tail: str, shown: str) -> bool:
    return bool(log_tail.strip()) and log_tail.strip() in shown


def _traceback_of(error: BaseException) -> str:
    """Return the job's traceback; where the function ran in this process, its own frames."""
    if isinstance(error.__cause__, RemoteTraceback):
        return error.__cause__.text
    if isinstance(error, JobError) or error.__traceback__ is None:
        return ""
    return traceback_text(error)
