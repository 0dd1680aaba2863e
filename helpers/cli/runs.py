"""How runs stand: from their folders, and with one question to each scheduler for all that have not ended."""

from __future__ import annotations

import contextlib
import platform
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from helpers.cli.report import note
from helpers.runtime.attempt.total_time import LEASED
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, Status, read_ledger, read_status, write_status
from helpers.submission.clusters.choice import choose_cluster
from helpers.submission.jobs.array_status import array_status, id_of
from helpers.submission.jobs.attach import all_runs
from helpers.submission.jobs.endings import status_from_scheduler
from helpers.submission.jobs.reasons import why_it_waits
from helpers.submission.jobs.sentences import in_brief
from helpers.submission.jobs.settling import settle_elements, wait_for_word

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from helpers.submission.clusters.slurm_queue import Observation


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run as it stands now.

    Args:
        folder: The run folder.
        description: What was submitted.
        ledger: The lines of its attempts.
        status: By its own word, or by the scheduler's where it has none.
        reason: Why it waits, by the scheduler's word.
    """

    folder: Path
    description: Description
    ledger: Sequence[dict[str, Any]]
    status: Status
    reason: str = ""

    @property
    def id(self) -> str:
        """The scheduler's id of the newest attempt."""
        return self.ledger[-1]["job_id"] if self.ledger else self.status.job_id

    @property
    def nodes(self) -> str:
        """Where the newest attempt runs or ran."""
        start = self._newest("start")
        return start["nodes"] if start else ""

    @property
    def submitted(self) -> float | None:
        """When it was queued, in seconds since the epoch."""
        return self.ledger[0]["time"] if self.ledger else None

    @property
    def seconds(self) -> float | None:
        """How long the newest attempt has run; None where it has not started, or its end is not known.

        Of one that Slurm ended, batch script and all: until the last word in its logs.
        """
        start, end = self._newest("start", LEASED), self._newest("end")
        if start is None or self.status.state is State.PENDING:
            return None
        if end is not None and end["attempt"] == start["attempt"]:
            return float(end["time"] - start["time"])
        if not self.status.state.is_final:
            return float(time.time() - start["time"])
        last_word = _last_word(RunFolder(self.folder), start["attempt"])
        return None if last_word is None else max(0.0, last_word - start["time"])

    @property
    def why(self) -> str:
        """Why it waits, in a sentence, or why it ended without a result; empty where there is nothing to say."""
        if self.description.elements:
            return self._word
        if self.status.state is State.PENDING and self.ledger:
            return why_it_waits(self.reason, self.id)
        word, ending = self._word, self.status.ending
        return in_brief(ending) if ending is not None and word == ending.cause else word

    @property
    def _word(self) -> str:
        """The same in the scheduler's word, for programs."""
        ending = self.status.ending
        if self.description.elements and ending is not None:
            return ending.detail
        if self.status.state is State.COMPLETED:
            return ""
        if ending is not None and self.status.state.is_final:
            cause = "" if ending.cause in {"raised", self.status.state.lower()} else ending.cause
            return ": ".join(filter(None, (cause, ending.detail)))
        return self.reason or self._ranks_that_are_done()

    def _ranks_that_are_done(self) -> str:
        """Say that some ranks have ended and others go on: who waits for rank 0's value should know why it waits."""
        ranks = self.description.processes
        if self.status.state is not State.RUNNING or ranks == 1:
            return ""
        attempt = RunFolder(self.folder).attempt(self.status.attempt)
        done = sum(attempt.outcome(rank).exists() for rank in range(ranks))
        return f"{done} of {ranks} ranks have ended; the job ends with the last" if 0 < done < ranks else ""

    def as_record(self) -> dict[str, Any]:
        """Return the facts for programs; times are in seconds, points in time since the epoch."""
        return {
            "id": self.id,
            "name": self.description.name,
            "state": str(self.status.state),
            "attempt": self.status.attempt,
            "seconds": self.seconds,
            "submitted": self.submitted,
            "nodes": self.nodes,
            "reason": self._word,
            "cluster": self.description.cluster,
            "folder": str(self.folder),
        }

    def _newest(self, *events: str) -> dict[str, Any] | None:
        return next((line for line in reversed(self.ledger) if line["event"] in events), None)


def _last_word(run: RunFolder, attempt: int) -> float | None:
    """Return when something was last printed, by Slurm too: it says in the batch log why it ends a job."""
    times = []
    for path in [run.batch_log, *(run.logs / str(attempt)).glob("*")]:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=None)


def newest_runs(start: Path, *, limit: int | None) -> list[Path]:
    """Return the run folders of the project around ``start``, newest first."""
    return all_runs(start)[::-1][:limit]


def look_at(folders: Sequence[Path]) -> list[RunView]:
    """Return how these runs stand.

    What the scheduler alone knows (a cancel, a lost node) is written down, since it soon forgets. A folder that
    cannot be read is named on stderr and left out.

    Raises:
        ClusterUnreachable: If the scheduler of a run that has not ended does not answer.
    """
    views = read_runs(folders)
    settle_elements(RunFolder(view.folder) for view in views if _is_array_under_way(view))
    seen = _observe(views)
    late = [view for view in views if _has_ended_unsaid(view, seen)]
    late_folders = {view.folder for view in wait_for_word(late, _has_moved_on)}
    return [_settle(view, seen, unsaid=view.folder in late_folders) for view in read_runs([v.folder for v in views])]


def read_runs(folders: Sequence[Path]) -> list[RunView]:
    """Return how runs stand by their folders alone."""
    views = []
    for folder in folders:
        run = RunFolder(folder)
        try:
            description, ledger, status = read_description(run), read_ledger(run), read_status(run)
        except (OSError, ValueError, TypeError, KeyError) as error:
            note(f"{folder} cannot be read: {error}")
            continue
        job_id = id_of(run)
        if description.elements:
            status = array_status(run, description, job_id)
        status = status or Status(state=State.PENDING, job_id=job_id, attempt=0)
        reason = "" if job_id else "no job id yet: being submitted, or interrupted before it was"
        views.append(RunView(folder=folder, description=description, ledger=ledger, status=status, reason=reason))
    return views


def _is_array_under_way(view: RunView) -> bool:
    return bool(view.description.elements) and not view.status.state.is_final


def _observe(views: Sequence[RunView]) -> dict[str, Observation]:
    """Ask each scheduler once, for all runs that it may know."""
    wanted: dict[str, list[str]] = {}
    for view in views:
        if _can_be_asked(view):
            wanted.setdefault(view.description.cluster, []).append(view.id)
    seen: dict[str, Observation] = {}
    for name, job_ids in wanted.items():
        seen.update(choose_cluster(name).observe(job_ids))
    return seen


def _can_be_asked(view: RunView) -> bool:
    """Say whether this machine can tell how the run stands: of another's processes it knows nothing."""
    if not view.id or view.description.elements or view.description.cluster == "inline":
        return False
    if view.status.state.is_final:
        return False
    return view.description.cluster != "local" or view.nodes in {"", platform.node()}


def _has_ended_unsaid(view: RunView, seen: dict[str, Observation]) -> bool:
    return _can_be_asked(view) and (view.id not in seen or seen[view.id].state.is_final)


def _has_moved_on(view: RunView) -> bool:
    now = read_runs([view.folder])
    return not now or now[0].status.state.is_final or now[0].id != view.id


def _settle(view: RunView, seen: dict[str, Observation], *, unsaid: bool) -> RunView:
    if not _can_be_asked(view):
        return view
    observation = seen.get(view.id)
    if unsaid:
        run = RunFolder(view.folder)
        status = status_from_scheduler(run, view.id, observation)
        if status.state is not State.LOST:  # a job that is only out of sight may still speak
            write_status(run, status)
        return replace(view, status=status)
    if observation is None or observation.state.is_final:
        return view
    return replace(
        view,
        status=replace(view.status, state=observation.state, job_id=view.id),
        reason=_reason(observation),
    )


def _reason(observation: Observation) -> str:
    """Return why a job waits, or what else the scheduler says of its state, such as ``COMPLETING``."""
    if observation.reason not in {"", "None"}:
        return observation.reason
    return "" if observation.word == observation.state else observation.word
