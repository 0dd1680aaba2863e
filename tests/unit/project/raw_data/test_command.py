"""``helpers data``: what it prints, for people and for programs, and what it refuses."""

import json
import os
from pathlib import Path

import pytest

from tests.unit.project.raw_data.conftest import Helpers, write_raw


def test_outside_a_project_there_is_nothing_to_check(tmp_path: Path, helpers: Helpers) -> None:
    """A hook in the wrong folder must not say that all is well."""
    refused = helpers(tmp_path, "guard")
    assert (refused.exit_code, "There is no project here" in refused.stderr) == (2, True)


def test_the_library_alone_guards_a_folder_with_data(tmp_path: Path, helpers: Helpers) -> None:
    """Neither the template nor a pyproject.toml is needed."""
    write_raw(tmp_path, "a.csv", "1\n")
    assert helpers(tmp_path, "add", "data/raw").stdout == "declared: data/raw/a.csv\n"
    assert helpers(tmp_path, "status").stdout == "data/raw: 1 ok\n"


@pytest.mark.parametrize("words", [[], ["data/raw/a.csv", "--reference", "."]])
def test_add_takes_files_or_a_reference(project: Path, helpers: Helpers, words: list[str]) -> None:
    """Both at once would leave open which is meant."""
    refused = helpers(project, "add", *words)
    assert (refused.exit_code, "takes files, or --reference and a folder" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("word", "rule"),
    [("nowhere.csv", "There is no file nowhere.csv"), (".", "holds"), ("pyproject.toml/x", "There is no file")],
)
def test_what_cannot_be_added_is_named(project: Path, helpers: Helpers, word: str, rule: str) -> None:
    """And nothing is copied."""
    before = sorted((project / "data").rglob("*"))
    refused = helpers(project, "add", word)
    assert (refused.exit_code, rule in refused.stderr) == (2, True), refused.stderr
    assert sorted((project / "data").rglob("*")) == before


def test_a_folder_from_elsewhere_is_copied_with_its_name(project: Path, helpers: Helpers, tmp_path: Path) -> None:
    """The files keep their time, which tells when they were made."""
    (tmp_path / "patients" / "1").mkdir(parents=True)
    (tmp_path / "patients" / "1" / "scan").write_text("x")
    os.utime(tmp_path / "patients" / "1" / "scan", (5, 5))
    record = json.loads(helpers(project, "add", tmp_path / "patients", "--json").stdout)
    assert record["new"] == ["patients/1/scan"]
    assert (project / "data/raw/patients/1/scan").stat().st_mtime == 5


def test_a_reference_is_shown_by_its_own_path(project: Path, helpers: Helpers, tmp_path: Path) -> None:
    """It is not in the project."""
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "x").write_text("x")
    assert helpers(project, "add", "--reference", tmp_path / "big", "--name", "scans").exit_code == 0
    lines = helpers(project, "verify", "--full").stdout.splitlines()
    assert lines == ["data/raw: 2 ok", f"{tmp_path}/big: 1 ok"]


def test_status_is_for_programs_too(project: Path, helpers: Helpers) -> None:
    """A table of fifty projects is made from it."""
    write_raw(project, "a.csv", "other\n")
    (area,) = json.loads(helpers(project, "status", "--json").stdout)["areas"]
    assert area["counts"] == {"changed": 1, "ok": 1}
    assert [(one["path"], one["state"]) for one in area["findings"]] == [("a.csv", "changed")]
    assert area["writable"] == ["", "a.csv"]
    assert helpers(project, "status").exit_code == 0
