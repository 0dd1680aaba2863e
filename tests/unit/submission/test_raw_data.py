"""A submission notes the state of raw data, and the job checks it again when it starts."""

import json
import os
from pathlib import Path

import pytest

from helpers import InvalidRequest, submit, submit_command
from helpers.config import read_settings
from helpers.runtime.raw_data.manifest import Entry, Manifest, write_manifest
from helpers.runtime.raw_data.start import record_raw_data, why_refused
from helpers.runtime.run.folder import RunFolder
from helpers.submission.variables import variables_of
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # sha256 of nothing
LONG_AGO_S = 1_000_000_000


@pytest.fixture
def declared(project: Path) -> Path:
    """A project with one raw file, which is empty."""
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    raw = project / "data" / "raw" / "a.csv"
    raw.parent.mkdir(parents=True)
    raw.touch()
    os.utime(raw, (LONG_AGO_S, LONG_AGO_S))
    write_manifest(
        project / "data/raw.manifest", Manifest(entries={"a.csv": Entry(path="a.csv", size=0, sha256=EMPTY)})
    )
    return project


def asked(project: Path) -> dict[str, object]:
    return {"project": str(project), "mode": "warn", "data": None, "manifests": {}}


def test_the_provenance_has_the_manifest_and_its_state(declared: Path) -> None:
    """A figure leads back to the bytes that it was made from."""
    job = submit_command(["true"], cluster="local")
    assert job.result(PATIENCE_S) == 0
    wait_for((job.folder / "provenance.json").exists)  # it is written beside the ranks
    record = json.loads((job.folder / "provenance.json").read_text())["raw_data"]
    assert (record["state"], record["manifests"]["raw"]["counts"]) == ("ok", {"ok": 1})
    assert len(record["manifests"]["raw"]["sha256"]) == 64


def test_a_change_is_said_at_once_and_the_call_goes_on(declared: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Unless the settings refuse it, the user knows best."""
    (declared / "data/raw/a.csv").write_text("9")
    assert submit(functions.add, 1, 2, cluster="inline").result() == 3
    assert "changed: data/raw/a.csv (it has 1 bytes, 0 were declared)" in capfd.readouterr().err


def test_a_change_is_refused_before_queueing_where_the_settings_say_so(
    declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that would not start need not wait for its turn."""
    (declared / "data/raw/a.csv").write_text("9")
    monkeypatch.setenv("HELPERS_RAW_DATA", "refuse")
    with pytest.raises(InvalidRequest, match=r"changed: data/raw/a\.csv"):
        submit(functions.add, 1, 2, cluster="inline")
    monkeypatch.setenv("HELPERS_RAW_DATA", "off")
    assert submit(functions.add, 1, 2, cluster="inline").result() == 3


def test_the_log_and_the_refusal_name_the_file(declared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who reads only the log's end has to know which."""
    (declared / "data/raw/a.csv").write_text("9")
    (declared / "data/raw/b.csv").write_text("9")
    record = record_raw_data(RunFolder(declared / "runs/net/1"), asked(declared))
    assert "RAW DATA IS NOT AS DECLARED" in capsys.readouterr().err
    words = "changed: data/raw/a.csv (it has 1 bytes, 0 were declared); undeclared: data/raw/b.csv"
    assert why_refused(record) == f"raw data is not as declared: {words}"


def test_what_cannot_be_told_is_no_all_clear(declared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A manifest with merge marks says nothing about the files."""
    (declared / "data/raw.manifest").write_text("<<<<<<< HEAD\n")
    record = record_raw_data(RunFolder(declared / "runs/net/1"), asked(declared))
    assert "raw.manifest:1: a line has path, size and sha256" in why_refused(record)
    assert "RAW DATA" in capsys.readouterr().err


def test_a_manifest_that_changed_while_the_job_waited_is_said(
    declared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was submitted for other data."""
    record_raw_data(RunFolder(declared / "runs/net/1"), {**asked(declared), "manifests": {"raw": "0" * 64}})
    assert "data/raw.manifest is another than when this was submitted" in capsys.readouterr().err


def test_the_elements_of_an_array_share_one_look(declared: Path) -> None:
    """A thousand elements would look at each file a thousand times."""
    array = RunFolder(declared / "runs/net/1")
    array.create()
    array.description.write_text("{}")
    first = record_raw_data(RunFolder(array.path / "elements/0"), asked(declared))
    (declared / "data/raw/a.csv").write_text("9")
    assert record_raw_data(RunFolder(array.path / "elements/1"), asked(declared)) == first
    alone = record_raw_data(array, asked(declared))
    assert alone is not None
    assert alone["state"] == "wrong"


def test_without_raw_data_nothing_is_noted(project: Path) -> None:
    """Most calls come from a folder that has none."""
    assert project.is_dir()
    assert record_raw_data(RunFolder(project), {}) is None
    assert why_refused(None) == ""


def test_caches_go_where_the_setting_says_and_the_users_own_word_counts_more(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home folder is full after three models."""
    monkeypatch.setenv("HELPERS_CACHES", str(project / "caches"))
    monkeypatch.setenv("TORCH_HOME", "/my/own")
    monkeypatch.delenv("HF_HOME", raising=False)
    read = submit_command(["sh", "-c", 'echo "$HF_HOME $TORCH_HOME $HF_HUB_OFFLINE" > seen'], cluster="local")
    assert read.result(PATIENCE_S) == 0
    assert (project / "seen").read_text() == f"{project}/caches/huggingface /my/own \n"


def test_jobs_on_a_cluster_are_offline_where_the_setting_says_so(project: Path) -> None:
    """A node without a network would wait minutes for each model; a laptop has one."""
    (project / "pyproject.toml").write_text("[tool.helpers.defaults]\noffline = true\n")
    settings = read_settings(project)
    assert variables_of(project, settings, on_cluster=True)["HF_HUB_OFFLINE"] == "1"
    assert variables_of(project, settings, on_cluster=False) == {}
