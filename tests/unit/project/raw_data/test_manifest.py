"""A manifest holds any path, merges in git, and says where it is wrong."""

import os
from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.runtime.raw_data.manifest import Entry, Manifest, escape, parse_manifest, read_manifest, write_manifest

SUM = "0" * 64
ODD = ["a b.csv", "tab\there", "two\nlines", "back\\slash", r"\x41", "#first", "ünï", os.fsdecode(b"bad\xff"), "cr\r"]


def test_any_path_comes_back(tmp_path: Path) -> None:
    """A name with a line break must not become two files."""
    entries = {path: Entry(path=path, size=1, sha256=SUM) for path in ODD}
    write_manifest(tmp_path / "m", Manifest(entries=entries))
    assert read_manifest(tmp_path / "m").entries == entries
    assert (tmp_path / "m").read_bytes().count(b"\n") == len(ODD)


def test_a_plain_path_stands_as_it_is() -> None:
    """People read the manifest in a diff."""
    assert escape("scans/2026 ü (1).csv") == "scans/2026 ü (1).csv"


def test_lines_are_sorted_so_that_git_can_merge_them(tmp_path: Path) -> None:
    """What two people add on two branches stands in two places."""
    entries = {path: Entry(path=path, size=1, sha256=SUM) for path in ("b", "c", "a")}
    write_manifest(tmp_path / "m", Manifest(entries=entries))
    assert (tmp_path / "m").read_text() == f"a\t1\t{SUM}\nb\t1\t{SUM}\nc\t1\t{SUM}\n"


def test_times_and_the_root_of_a_reference_come_back(tmp_path: Path) -> None:
    """A reference is judged by times that hold in every clone."""
    entry = Entry(path="a", size=1, sha256="", mtime_ns=1_700_000_000_000_000_123)
    write_manifest(tmp_path / "m", Manifest(entries={"a": entry}, root="/big/st\nore"))
    assert read_manifest(tmp_path / "m").entries == {"a": entry}
    assert read_manifest(tmp_path / "m").root == "/big/st\nore"


def test_that_git_keeps_a_file_comes_back(tmp_path: Path) -> None:
    """A clone tells by it what was deleted from what was never fetched."""
    entries = {"a": Entry(path="a", size=1, sha256=SUM, in_git=True), "b": Entry(path="b", size=1, sha256=SUM)}
    write_manifest(tmp_path / "m", Manifest(entries=entries))
    assert (tmp_path / "m").read_text() == f"a\t1\t{SUM}\tgit\nb\t1\t{SUM}\n"
    assert read_manifest(tmp_path / "m").entries == entries


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<<<<<<< HEAD\n", "m:1: a line has path, size and sha256"),
        (f"a\t1\t{SUM}\nb\t1\n", "m:2: a line has path, size and sha256"),
        (f"a\t1\t{SUM[1:]}\n", "m:1: a line has"),
        (f"a\t-1\t{SUM}\n", "m:1: a line has"),
        (f"a\t1\t{SUM}\tgot\n", "m:1: a line has"),
        (f"a\t1\t{SUM}\tgit\tgit\n", "m:1: a line has"),
        (f"/etc/passwd\t1\t{SUM}\n", "m:1: a line has"),
        (f"a/../../b\t1\t{SUM}\n", "m:1: a line has"),
        (f"a\t1\t{SUM}\na\t2\t{SUM}\n", "m:2: a is declared twice, and differently"),
    ],
)
def test_a_line_that_is_none_is_named(text: str, words: str) -> None:
    """After a merge that went wrong, nothing is checked against half a manifest."""
    with pytest.raises(InvalidRequest) as refused:
        parse_manifest(text.encode(), "m")
    assert words in refused.value.message


def test_a_line_twice_and_equal_is_one() -> None:
    """Two branches may have added the same file."""
    assert list(parse_manifest(f"a\t1\t{SUM}\r\na\t1\t{SUM}\n".encode(), "m").entries) == ["a"]
