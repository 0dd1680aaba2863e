"""Where nothing can be written, a Checkpointer says so when it is made."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.training import Checkpointer
from helpers.training.checkpoints import lease
from helpers.training.checkpoints.saving import SaveFailed
from tests.unit.training.checkpoint_fixtures import outside_a_job  # noqa: F401 -- a fixture


def test_a_read_only_file_system_is_named_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system names a temporary file that nobody has heard of."""

    def refuse(path: Path, _: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path.with_name(".lease.json.9ae7d287.tmp")))

    monkeypatch.setattr(lease, "write_json", refuse)
    with pytest.raises(SaveFailed) as caught:
        Checkpointer({"n": 1}, folder=tmp_path)
    assert str(caught.value) == (
        f"No checkpoint can be written to {tmp_path}: Read-only file system.\n"
        "  hint: a folder= where this process may write; to read only: Checkpointer.load(folder)"
    )


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file in its place, for one."""
    (tmp_path / "file").touch()
    with pytest.raises(SaveFailed, match=r"No checkpoint can be written to .*/file/c: Not a directory\."):
        Checkpointer({"n": 1}, folder=tmp_path / "file" / "c")
