"""A step of a workflow that was interrupted takes up its job, and does no work twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers import submit
from helpers.errors import ClusterUnreachable, InvalidRequest
from helpers.project.once import Once, run_of
from helpers.submission.jobs.glance import glance

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.testing import FakeSlurm


def answer() -> int:
    return 42


def fail() -> None:
    raise ValueError("no")


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a step, in a project of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / "step.json"


def begin(step: Path, function: Any, asked: object = "all") -> None:
    """Submit, and be interrupted before the end is written."""
    Once(step, asked=asked).remember(submit(function, cluster="inline"))


def test_a_step_begins_once(step: Path) -> None:
    begin(step, answer)
    again = Once(step, asked="all")
    assert again.job is not None
    again.write(again.job)
    assert run_of(step) == again.job.folder
    assert Once(step, asked="all").job is None  # what is done again is done anew


def test_a_step_with_other_settings_begins_anew(step: Path) -> None:
    """Its result would be another."""
    begin(step, answer, asked="lr 1")
    assert Once(step, asked="lr 2").job is None


def test_a_step_that_failed_without_a_checkpoint_begins_anew(step: Path) -> None:
    begin(step, fail)
    assert Once(step, asked="all").job is None


def test_a_step_whose_run_is_gone_begins_anew(step: Path) -> None:
    step.parent.mkdir()
    pending = {"folder": str(step.parent / "gone"), "asked": repr("all")}
    step.with_name("step.json.job").write_text(json.dumps(pending))
    assert Once(step, asked="all").job is None


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = submit(answer, cluster="inline")
    once = Once(None, asked="all")
    once.remember(job)
    once.write(job)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_file_that_names_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InvalidRequest, match="names no run"):
        run_of(tmp_path / "x.json")
    assert run_of(tmp_path) == tmp_path


def test_a_step_is_not_begun_twice_while_nobody_tells_how_its_job_stands(step: Path, fake_slurm: FakeSlurm) -> None:
    """The job may well run: a second one beside it would cost as much again."""
    job = submit(answer, cluster="slurm")
    Once(step, asked="all").remember(job)
    job.result(30)
    (job.folder / "status.json").unlink()
    glance.forget()
    with fake_slurm.controller_down(), pytest.raises(ClusterUnreachable):
        Once(step, asked="all")
