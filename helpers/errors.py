"""What can go wrong, and what to do about it.

::

    HelpersError
    ├── InvalidRequest          (ValueError)  a rule of ours, before anything is queued
    ├── Rejected                              Slurm refused the job: its own sentence
    ├── ClusterUnreachable                    Slurm is configured and does not answer
    └── JobError                              the job ended, and its caller has no result
        ├── JobFailed                         an exception that cannot be rebuilt here
        ├── JobExited                         the function's process ended with an exit code
        ├── JobKilled                         the function's process ended by a signal
        ├── JobOutOfMemory                    the node's memory limit for the job was reached
        ├── GpuOutOfMemory      (RuntimeError)  a GPU's memory was full
        ├── TimeLimitReached
        ├── JobPreempted                      made to give way, and cannot resume
        ├── NodeFailed
        ├── JobCancelled        (CancelledError)
        ├── DependencyFailed                  a job that this one waits for did not succeed
        ├── EnvironmentMismatch               the job's interpreter or folder is missing there, or is another one
        ├── RawDataChanged                    raw data is not as declared, and the settings refuse that
        ├── SetupFailed                       a line of ``setup`` failed; nothing was run
        ├── ResultNotSaved                    the function returned; its value cannot be pickled
        ├── ResultNotLoaded                   the job succeeded; its value cannot be loaded in this process
        └── JobLost                           neither Slurm nor the run folder knows what became of it

A function's *own* exception is raised as itself, with these facts in its notes. None is a ``TimeoutError``,
which ``Job.result(timeout=…)`` raises while the job still runs.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass, fields
from typing import Any


class HelpersError(Exception):
    """The root of all errors of this library.

    Args:
        message: The rule and the value that broke it.
        hint: What to do; a line that can be pasted.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[HelpersError], args: tuple[Any, ...], state: dict[str, Any]) -> HelpersError:
    """Make an error from its pickle; the usual way would lose what is given by keyword."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InvalidRequest(HelpersError, ValueError):
    """The request breaks a rule; nothing was queued."""


class Rejected(HelpersError):
    """Slurm refused the job; nothing was queued."""


class ClusterUnreachable(HelpersError):
    """Slurm is configured here and does not answer; the job was not run on this machine instead."""


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """What is known of a job that ended without a result.

    Args:
        job_id: The scheduler's id.
        folder: The run folder.
        node: Where it happened, as the scheduler names it.
        rank: The rank that failed first; None where the whole job was ended.
        exit_code: Of the process that failed first.
        signal: Name of the signal that ended it, such as ``"SIGKILL"``.
        log: Path of the log that tells more.
        log_tail: Its last lines.
    """

    job_id: str
    folder: str
    node: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    log: str | None = None
    log_tail: str = ""

    def lines(self, *, with_log: bool = True) -> list[str]:
        """Return the facts that are known, one a line, and the log's last lines."""
        names = {"job_id": "job", "exit_code": "exit code"}
        known = [
            (names.get(field.name, field.name), getattr(self, field.name))
            for field in fields(self)
            if field.name != "log_tail" and getattr(self, field.name) is not None
        ]
        lines = [f"  {name}: {value}" for name, value in known]
        if with_log and self.log_tail:
            lines += ["  last lines of the log:", *(f"    {line}" for line in self.log_tail.splitlines())]
        return lines


class JobError(HelpersError):
    """The caller has no result: the job ended without one, or it cannot be loaded.

    Args:
        message: What happened, in a sentence.
        facts: Where, and what is known of it.
        hint: What to do; a line that can be pasted.
    """

    def __init__(self, message: str, *, facts: JobFacts, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.facts = facts

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.facts.lines()])


class JobFailed(JobError):
    """The function raised an exception that cannot be rebuilt in this process."""


class JobExited(JobError):
    """The function's process ended with an exit code of its own."""


class JobKilled(JobError):
    """The function's process was ended by a signal."""


class GpuOutOfMemory(JobError, RuntimeError):
    """A GPU's memory was full; torch's own class for that is a RuntimeError, too."""


class JobOutOfMemory(JobError):
    """The job used more host memory than it asked for."""


class TimeLimitReached(JobError):
    """The job reached its time limit and does not go on."""


class JobPreempted(JobError):
    """The job was made to give way and cannot resume."""


class NodeFailed(JobError):
    """The node was lost and the job does not go on."""


class JobCancelled(JobError, CancelledError):
    """Somebody cancelled the job."""


class DependencyFailed(JobError):
    """A job that this one waits for did not succeed."""


class SetupFailed(JobError):
    """A line of ``setup`` failed; nothing was run."""


class EnvironmentMismatch(JobError):
    """The job's interpreter or its run folder is missing on the node, or the interpreter is another one."""


class RawDataChanged(JobError):
    """Raw data is not as its manifest says, and the settings refuse to run on that; the function was not called."""


class ResultNotSaved(JobError):
    """The function returned, and its value cannot be pickled."""


class ResultNotLoaded(JobError):
    """The job succeeded and its value is saved; it cannot be loaded in this process. Its cause is what was raised."""


class JobLost(JobError):
    """Neither the scheduler nor the run folder knows what became of the job."""
