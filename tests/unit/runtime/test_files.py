"""A file is whole or not there, whatever the disk does."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.runtime.files import append_json_line, read_json, read_json_lines, write_json, write_whole


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def cut_short(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    return lambda descriptor, data: write(descriptor, data[: len(data) // 2])


def test_a_new_file_replaces_the_old_one(tmp_path: Path) -> None:
    """And nothing else is left in the folder."""
    write_whole(tmp_path / "file", b"old")
    write_whole(tmp_path / "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"new"}


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Half a status, or a folder full of temporary files, would be worse than none."""
    write_whole(tmp_path / "file", b"old")
    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_the_data_and_then_the_name_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other order, a loss of power leaves a name with nothing in it."""
    order: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append("sync") or sync(descriptor))
    monkeypatch.setattr(Path, "replace", lambda *paths: order.append("rename") or replace(*paths))
    write_whole(tmp_path / "file", b"new")
    assert order == ["sync", "rename", "sync"]


def test_the_mode_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    """A pickle that others can read is a leak."""
    write_whole(tmp_path / "file", b"", mode=0o600)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("value", ["é", "a\u2028b\x85c", "half a pair \udce9", {"nested": [1, None, True]}])
def test_json_comes_back_as_it_was(tmp_path: Path, value: object) -> None:
    """Messages of exceptions hold whatever their authors found in files."""
    write_json(tmp_path / "file", value)
    append_json_line(tmp_path / "lines", value)
    assert (read_json(tmp_path / "file"), read_json_lines(tmp_path / "lines")) == (value, [value])


def test_json_is_readable_by_people(tmp_path: Path) -> None:
    """Not a wall of escapes."""
    write_json(tmp_path / "file", {"name": "é"})
    assert (tmp_path / "file").read_text() == '{\n "name": "é"\n}\n'


@pytest.mark.parametrize("path", ["missing", "file/below"])
def test_a_file_that_is_not_there_is_none(tmp_path: Path, path: str) -> None:
    """It has not been written yet."""
    (tmp_path / "file").touch()
    assert read_json(tmp_path / path) is None


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    """The machine stopped in the middle of it."""
    (tmp_path / "lines").write_text('{"a": 1}\n{"b": ')
    assert read_json_lines(tmp_path / "lines") == [{"a": 1}]


def test_a_line_that_was_cut_short_spoils_no_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Glued together they were no JSON, and no attempt could begin any more."""
    append_json_line(tmp_path / "lines", {"a": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", cut_short(os.write))
        with pytest.raises(OSError, match="No space left"):
            append_json_line(tmp_path / "lines", {"b": 2})
    append_json_line(tmp_path / "lines", {"c": 3})
    assert read_json_lines(tmp_path / "lines") == [{"a": 1}, {"c": 3}]


def test_a_line_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers on one node would otherwise mix theirs."""
    written: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: written.append(data) or write(descriptor, data))
    append_json_line(tmp_path / "lines", {"a": 1})
    assert written == [(json.dumps({"a": 1}) + "\n").encode()]
