"""What is said of each way to end: the class of the error, the sentence, and the hint that can be pasted."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import errors
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.outcome import NOT_WRITTEN
from helpers.submission.jobs.advice import largest_memory_mb, memory_given_mb, more_memory, more_time, rerun_of_failed
from helpers.submission.resources.amounts import memory_text

if TYPE_CHECKING:
    from helpers.errors import JobError, JobFacts
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.status import Ending


@dataclass(frozen=True)
class _Form:
    """How one cause is told; ``{0.name}`` and the like are filled in from a :class:`_Case`."""

    kind: type[JobError]
    sentence: str
    hint: str


_LOGS = "helpers logs {0.job}"
_PREEMPTED = _Form(
    errors.JobPreempted,
    "{0.name} was stopped and does not go on: {0.why}.",
    "{0.how_to_go_on}; or submit with requeue=True",
)
_FORMS = {
    "killed": _Form(errors.JobKilled, "{0.name} was ended by {0.signal}{0.rank}.{0.more}", _LOGS),
    "exited": _Form(errors.JobExited, "{0.name} ended with exit code {0.code}{0.rank}.{0.more}", _LOGS),
    "out_of_memory": _Form(
        errors.JobOutOfMemory, "{0.name} used more host memory than {0.memory_given}{0.peak}.", "{0.more_memory}"
    ),
    "timeout": _Form(errors.TimeLimitReached, "{0.name} reached {0.limit}.", "{0.how_to_go_on}{0.or_more_time}"),
    "total_time": _Form(
        errors.TimeLimitReached,
        "{0.name} has used up its time: {0.detail}.",
        'go on from its checkpoint: helpers resume {0.job}; or submit with more: total_time="…"',
    ),
    "preempted": _PREEMPTED,
    "cannot_resume": _PREEMPTED,
    "no_progress": _Form(errors.JobPreempted, "{0.name} does not go on: {0.detail}.", "{0.see_or_save_more}"),
    "too_short": _Form(
        errors.TimeLimitReached, "{0.name} does not go on: {0.detail}.", 'submit with a longer limit: time="…"'
    ),
    "node_fail": _Form(
        errors.NodeFailed,
        "The node {0.node} was lost while {0.name} ran.",
        "submit again; requeue=True lets Slurm do so",
    ),
    "cancelled": _Form(errors.JobCancelled, "{0.name} was cancelled{0.in_brackets}.", "{0.resume_or_logs}"),
    "dependency_failed": _Form(
        errors.DependencyFailed,
        "{0.name} never started: a job that it waits for did not succeed.{0.more}",
        "{0.rerun_of_failed}",
    ),
    "setup": _Form(
        errors.SetupFailed,
        "This set-up line failed with exit code {0.code}, so nothing was run: {0.detail}",
        "try it on its own: bash -c {0.detail_quoted}",
    ),
    "environment": _Form(
        errors.EnvironmentMismatch,
        "{0.name} could not start{0.on_node}: {0.detail}.",
        "keep the environment until the job has ended, in a folder that the nodes see; then submit again",
    ),
    "launch": _Form(
        errors.EnvironmentMismatch,
        "{0.name} could not start{0.on_node}: {0.detail}.",
        "is the folder there, and can you write to it? {0.list_on_node}; else runs in a folder that the nodes see: "
        "HELPERS_RUNS=/path/to/runs",
    ),
    "container": _Form(
        errors.EnvironmentMismatch,
        "{0.name} could not start{0.on_node}: {0.detail}.",
        "the image needs Python 3.11 or newer with this library's requirements, and the nodes have to see the image",
    ),
    "raw_data": _Form(
        errors.RawDataChanged,
        "{0.name} was not started{0.on_node}: {0.detail}.",
        'helpers data status; to run all the same: raw_data = "warn" in [tool.helpers.defaults]',
    ),
    "unsaved": _Form(
        errors.ResultNotSaved,
        "The function returned, but {0.detail}.",
        "{0.make_room_or_return_less}",
    ),
    "unloaded": _Form(
        errors.JobFailed,
        "{0.function} could not be loaded in the job: {0.detail}",
        "{0.python} -c 'import {0.module}'",
    ),
    "lost": _Form(errors.JobLost, "What became of {0.name} is not known: {0.or_no_word}.", "{0.who_may_know}"),
}
_UNKNOWN = _Form(errors.JobFailed, "{0.name} failed: {0.detail_or_cause}.", _LOGS)


def error_for(description: Description, ending: Ending, facts: JobFacts) -> JobError:
    """Return the error for a run that ended so; a cause that a later version has written is told by its words."""
    form = _FORMS.get(ending.cause, _UNKNOWN)
    case = _Case(description, ending, facts)
    return form.kind(form.sentence.format(case), facts=facts, hint=form.hint.format(case))


def in_brief(ending: Ending) -> str:
    """Return why a run ended, for the column of a table: the sentence where there is one, else what is known."""
    if ending.detail:
        return ending.detail
    if ending.cause == "exited" and ending.exit_code is not None:
        return f"exit code {ending.exit_code}"
    return ending.signal if ending.cause == "killed" and ending.signal else ending.cause


@dataclass(frozen=True)
class _Case:
    """One run's end, in the parts that the sentences are made of."""

    description: Description
    ending: Ending
    facts: JobFacts

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def function(self) -> str:
        return self.description.function

    @property
    def module(self) -> str:
        return self.description.function.partition(".")[0]

    @property
    def python(self) -> str:
        return self.description.python

    @property
    def job(self) -> str:
        return self.facts.job_id

    @property
    def code(self) -> int | None:
        return self.ending.exit_code

    @property
    def signal(self) -> str:
        return self.ending.signal or "a signal"

    @property
    def rank(self) -> str:
        return "" if self.ending.rank is None else f" (rank {self.ending.rank})"

    @property
    def node(self) -> str:
        return self.ending.node or "of the job"

    @property
    def rerun_of_failed(self) -> str:
        return rerun_of_failed(self.description)

    @property
    def list_on_node(self) -> str:
        where = f" --nodelist={self.ending.node}" if self.ending.node else ""
        return f"srun{where} ls -ld {shlex.quote(self.facts.folder)}"

    @property
    def on_node(self) -> str:
        return f" on {self.ending.node}" if self.ending.node else ""

    @property
    def detail(self) -> str:
        return self.ending.detail

    @property
    def more(self) -> str:
        return f" {self.detail.rstrip('.')}." if self.detail else ""

    @property
    def in_brackets(self) -> str:
        return f" ({self.detail})" if self.detail else ""

    @property
    def detail_quoted(self) -> str:
        return shlex.quote(self.detail)

    @property
    def detail_or_cause(self) -> str:
        return self.detail or self.ending.cause

    @property
    def or_no_word(self) -> str:
        return self.detail or "its script left no word"

    @property
    def who_may_know(self) -> str:
        if self.description.cluster == "slurm":
            return f"sacct -j {self.job}"
        return f"helpers logs {self.job}; df -h {shlex.quote(self.facts.folder)}"

    @property
    def make_room_or_return_less(self) -> str:
        if NOT_WRITTEN in self.detail:
            return f"make room, then submit again: df -h {shlex.quote(self.facts.folder)}"
        return "return numbers, arrays or paths; save large objects into helpers.current_run().folder"

    @property
    def why(self) -> str:
        return self.detail or "it was made to give way to another job"

    @property
    def limit(self) -> str:
        minutes = self.description.time_min
        return "its time limit" if minutes is None else f"its time limit of {minutes} min"

    @property
    def how_to_go_on(self) -> str:
        if self.description.command:
            return f"a program that saves at SIGTERM and ends with exit code {os.EX_TEMPFAIL} goes on by itself"
        if self._resume:
            return self._resume
        return (
            "it had made no helpers.training.Checkpointer when it was stopped: one that is made first, before data and "
            "model, lets it go on by itself"
        )

    @property
    def or_more_time(self) -> str:
        more = more_time(self.description)
        return f"; or ask for more: {more}" if more else ""

    @property
    def see_or_save_more(self) -> str:
        if self.description.command:
            return f"look at what it does first: helpers logs {self.job} --attempt 0"
        return 'save more often: Checkpointer(…, save_every="2min"); or ask for more time'

    @property
    def resume_or_logs(self) -> str:
        if self._resume:
            return self._resume
        return f"helpers logs {self.job}"

    @property
    def _resume(self) -> str:
        """How to go on from its checkpoint; empty where it has made none."""
        has_checkpoints = RunFolder(Path(self.facts.folder)).checkpoints.is_dir()
        return f"go on from its checkpoint: helpers resume {self.job}" if has_checkpoints else ""

    @property
    def _given_mb(self) -> int | None:
        return memory_given_mb(self.description, self.facts.folder)

    @property
    def memory_given(self) -> str:
        given = memory_text(self._given_mb) if self._given_mb else "the default"
        whose = "it asked for" if "mem" in self.description.resources else "it was given"
        return f"{whose} ({given} per node)"

    @property
    def peak(self) -> str:
        peak = self.ending.peak
        if peak is None:
            return ""
        where = f" on {peak.node}" if peak.node else ""
        if peak.source == "cgroup":
            return f"; its peak{where} was {memory_text(peak.mem_mb)}"
        return f"; when Slurm last looked, its largest process had {memory_text(peak.mem_mb)}{where}"

    @property
    def more_memory(self) -> str:
        return more_memory(self._given_mb, largest_memory_mb(self.description))
