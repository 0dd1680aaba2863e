"""Submit a step of a workflow once: where the workflow was stopped in the middle, take up the job that it began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import ClusterUnreachable, HelpersError, InvalidRequest
from helpers.runtime.files import read_json, write_json
from helpers.runtime.run.status import State

if TYPE_CHECKING:
    from helpers.submission.jobs.job import Job


class Once:
    """What an earlier call of the same step has begun.

    Beside ``file``, which is there when the step is done, ``<file>.job`` names the run from its submission on. A
    workflow engine removes the file of a step that was interrupted; it does not know of the other.

    Args:
        file: What the step writes when it is done; None where no step is meant: all calls do nothing.
        asked: What the step does and with which resources; a job that was begun with other words is not taken up.
    """

    def __init__(self, file: Path | None, *, asked: Any) -> None:
        self.file = file
        self.asked = repr(asked)
        self.job: Job[Any] | None = None if file is None else self._take_up(self._pending(file))

    @staticmethod
    def _pending(file: Path) -> Path:
        return file.with_name(f"{file.name}.job")

    def _take_up(self, pending: Path) -> Job[Any] | None:
        """Return the job that was begun: as it runs, as it ended well, or resumed; None to begin anew.

        Raises:
            ClusterUnreachable: If nobody tells how it stands: a second one beside it would be worse than none.
        """
        from helpers.submission.jobs.again import resume
        from helpers.submission.jobs.attach import attach

        known = read_json(pending)
        if known is None or known["asked"] != self.asked:
            return None
        try:
            job = attach(known["folder"])
            state = State(job.state)
            if state is State.COMPLETED or not state.is_final:
                return job
            return resume(known["folder"])
        except ClusterUnreachable:
            raise
        except HelpersError:  # the run is gone, or it has nothing to go on from
            return None

    def remember(self, job: Job[Any]) -> None:
        """Write down the job, so that a later call can take it up."""
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._pending(self.file), {"folder": str(job.folder), "asked": self.asked})

    def write(self, job: Job[Any]) -> None:
        """Write the step's file: where the run is that it made."""
        if self.file is not None:
            write_json(self.file, {"run": str(job.folder)})
            self._pending(self.file).unlink(missing_ok=True)


def run_of(path: Path) -> Path:
    """Return the run folder that a path is, or that a step's file names.

    Raises:
        InvalidRequest: If it is a file of another kind.
    """
    if not path.is_file():
        return path
    try:
        return Path(json.loads(path.read_text(encoding="utf-8"))["run"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(
            f"{path} names no run.", hint="give the run's folder, or what train --once wrote"
        ) from error
