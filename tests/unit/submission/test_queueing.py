"""A run is queued whole, or nothing is left of it."""

import errno
from pathlib import Path

import pytest

from helpers import InvalidRequest, submit
from helpers.submission import plan as plans
from tests.unit.submission import functions


def test_a_run_folder_that_cannot_be_written_whole_is_told_and_removed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a folder, without its record, was all that told of a full disk."""

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(plans, "write_description", no_room)
    with pytest.raises(InvalidRequest, match=r"cannot be written: No space left on device(.|\n)*df -h"):
        submit(functions.add, 1, cluster="local")
    assert list((project / "runs").glob("add/*")) == []
