"""Where things are kept, how full that is, and what will be deleted there soon."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from helpers import InvalidRequest
from helpers.cli.main import app
from helpers.config import read_settings
from helpers.project import storage
from helpers.project.storage import parse_days, places, read_quotas, storage_warnings

DAY_S = 86400
SETTINGS = """
[tool.helpers.storage]
runs = "$SCRATCH/runs"
archive = "/archive"
scratch = "$SCRATCH"
expires_after = "60 days"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose runs are on scratch."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(SETTINGS)
    for name in [name for name in os.environ if name.startswith("HELPERS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PWD", str(folder))
    monkeypatch.chdir(folder)
    return folder


def leave_for(days: float, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("weights")
    then = time.time() - days * DAY_S
    os.utime(file, (then, then))


def warnings(project: Path) -> list[str]:
    return storage_warnings(project, read_settings(project))


def test_what_is_on_scratch_expires_and_what_is_not_does_not(project: Path) -> None:
    """Home and archive are kept."""
    days = {place.name: place.expires_days for place in places(project, read_settings(project))}
    assert days == {"runs": 60, "data": None, "caches": None, "archive": None, "scratch": 60}


@pytest.mark.parametrize(
    ("age", "words"), [(10, None), (55, "will be deleted in 5 days"), (70, "may be deleted any day")]
)
def test_a_run_that_will_be_deleted_soon_is_named_with_the_cure(
    project: Path, tmp_path: Path, age: float, words: str | None
) -> None:
    """A checkpoint that is gone cannot be archived."""
    leave_for(age, tmp_path / "scratch/runs/net/1/checkpoints/weights")
    said = warnings(project)
    assert bool(said) == (words is not None)
    assert all(words in line and "weights" in line and "helpers archive RUN" in line for line in said if words)


def test_raw_data_behind_a_link_to_scratch_is_named(project: Path, tmp_path: Path) -> None:
    """It is read only, so nobody touches it, and it goes."""
    leave_for(58, tmp_path / "scratch/raw/a.csv")
    (project / "data").mkdir()
    (project / "data/raw").symlink_to(tmp_path / "scratch/raw")
    assert [line.split(":")[0] for line in warnings(project)] == ["raw data"]


def test_a_full_disk_and_the_last_files_are_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotas on the number of files are met first by environments and by small images."""
    space = SimpleNamespace(f_bavail=5, f_blocks=100, f_frsize=2**30, f_favail=2, f_files=100)
    monkeypatch.setattr(storage.os, "statvfs", lambda _: space)
    said = [line for line in warnings(project) if line.startswith("storage.archive")]
    assert said == [
        "storage.archive: 5.0G are free in /archive",
        "storage.archive: 2% of the files are left in /archive",
    ]


QUOTA = """\
Disk quotas for user ada (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
nas:/home  95000*  90000  100000   6days     120       0       0
/dev/sda1  10  0  0  0  0  0
/dev/sdb1  10  100  200  99  100  0
"""


def test_a_quota_is_read_as_the_command_prints_it() -> None:
    """Of each device the limit that is nearest, the soft one first; none where there is no limit."""
    assert read_quotas(QUOTA.splitlines()) == {"nas:/home": 95000 / 90000, "/dev/sdb1": 0.99}


def test_a_quota_that_is_nearly_full_is_said(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a checkpoint fails, not after."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "quota").write_text("#!/bin/sh\necho 'dev 95 100 100 1 0 0'\n")
    (folder / "quota").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(storage, "_device_of", lambda _: "dev")
    assert any("95% of your quota are taken" in line for line in warnings(project))


@pytest.mark.parametrize(("text", "days"), [("60 days", 60), ("8 weeks", 56), ("2 months", 60), (30, 30), ("1d", 1)])
def test_an_age_is_read(text: str | float, days: float) -> None:
    assert parse_days(text) == days


def test_an_age_that_is_none_is_refused() -> None:
    """A warning that never comes is worse than none."""
    with pytest.raises(InvalidRequest, match="got 'soon'"):
        parse_days("soon")


def test_the_command_shows_all_folders(project: Path) -> None:
    """For people and for programs."""
    assert project.is_dir()
    lines = CliRunner().invoke(app, ["storage"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["what", "runs", "data", "caches", "archive", "scratch"]
    record = json.loads(CliRunner().invoke(app, ["storage", "--json"]).stdout)
    assert record["folders"][0]["folder"].endswith("scratch/runs")


def test_a_shell_gets_the_caches_that_jobs_get(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is downloaded on the login node is where the job looks."""
    assert project.is_dir()
    monkeypatch.setenv("HELPERS_CACHES", "/big/my caches")
    lines = CliRunner().invoke(app, ["storage", "--export"]).stdout.splitlines()
    assert "export HF_HOME=${HF_HOME:-'/big/my caches/huggingface'}" in lines
