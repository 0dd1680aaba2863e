"""A failure is told also where there is no room for its exception."""

import errno
from pathlib import Path

import pytest

from helpers.runtime.rank import call
from helpers.runtime.run.folder import RunFolder


def test_an_exception_that_finds_no_room_leaves_its_words_to_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk's error took its place, and the caller learnt of an exit code."""

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = RunFolder(tmp_path / "run")
    run.create()
    monkeypatch.setattr(call, "write_private", no_room)
    call.save_exception(run, 0, 0, ValueError("the user's own words"))
    assert call.load_exception(run, 0, 0) is None
