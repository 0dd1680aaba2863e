"""A run's status is read by other processes, of other versions too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import Ending, State, Status, read_status, write_status

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_newer_version_has_added_is_left_out(tmp_path: Path) -> None:
    """A client waits for days; a job that was installed anew meanwhile must not end its watcher."""
    run = RunFolder(tmp_path)
    write_status(run, Status(state=State.FAILED, job_id="12", attempt=1, ending=Ending(cause="raised", rank=0)))
    record = json.loads(run.status.read_text())
    record["new"] = 1
    record["ending"]["newer"] = {"of": "tomorrow"}
    run.status.write_text(json.dumps(record))
    status = read_status(run)
    assert status is not None
    assert (status.state, status.ending) == (State.FAILED, Ending(cause="raised", rank=0))
