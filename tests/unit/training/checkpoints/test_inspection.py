"""``helpers checkpoint``: what people see of the checkpoints of a run."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from helpers.cli.main import app
from helpers.runtime import stop
from helpers.training import Checkpointer
from helpers.training.checkpoints.inspection import choose_spare
from helpers.training.checkpoints.manifest import read_manifest

Command = Callable[..., Result]


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with checkpoints of the steps 1, 2 and 3 and a best one."""
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stop, "_request", None)
    folder = tmp_path / "run" / "checkpoints"
    checkpoint = Checkpointer({"n": 1}, folder=folder, save_every=1)
    for _ in checkpoint.steps(3):
        checkpoint.keep_best(loss=1.0)
    return folder


@pytest.fixture
def helpers(checkpoints: Path) -> Command:
    """Return ``helpers checkpoint …`` for that folder."""
    return lambda verb, *options: CliRunner().invoke(app, ["checkpoint", verb, str(checkpoints.parent), *options])


def _damage(checkpoints: Path) -> None:
    path = checkpoints / "step-00000002" / "state.json"
    path.write_bytes(path.read_bytes()[::-1])


def test_ls_shows_what_there_is(helpers: Command) -> None:
    """Oldest first; the best one after them."""
    done = helpers("ls")
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "step-00000001",
        "step-00000002",
        "step-00000003",
        "best-step-00000000",
    ]


def test_ls_speaks_json(helpers: Command) -> None:
    """For programs."""
    first = json.loads(helpers("ls", "--json").stdout)[0]
    assert (first["name"], first["step"], first["ranks"], first["damage"]) == ("step-00000001", 1, 1, "")


def test_verify_reads_every_byte(helpers: Command, checkpoints: Path) -> None:
    """What ls cannot see is named, and the exit code says so."""
    assert helpers("verify").exit_code == 0
    _damage(checkpoints)
    assert "checksum" not in helpers("ls").stdout
    done = helpers("verify")
    assert done.exit_code == 1
    assert "is damaged: its checksum is" in done.stdout
    assert (checkpoints / "step-00000002").exists()


def test_prune_lists_and_removes_only_when_told(helpers: Command, checkpoints: Path) -> None:
    """The newest and the best stay."""
    assert "step-00000002" in helpers("prune").stdout
    assert len(list(checkpoints.glob("step-*"))) == 3
    assert helpers("prune", "--delete", "--keep", "2").exit_code == 0
    assert sorted(path.name for path in checkpoints.iterdir() if path.is_dir()) == [
        "best-step-00000000",
        "step-00000002",
        "step-00000003",
    ]


def test_prune_counts_only_whole_ones(helpers: Command, checkpoints: Path) -> None:
    """Damaged ones must not push out the last good one; they go if that is asked for."""
    os.truncate(checkpoints / "step-00000003" / "state.json", 1)
    (checkpoints / "step-00000009.tmp-0-ab").mkdir()
    helpers("prune", "--delete", "--damaged")
    assert sorted(path.name for path in checkpoints.glob("step-*")) == ["step-00000002", "step-00000009.tmp-0-ab"]


def test_a_run_that_is_not_there_is_a_mistake(helpers: Command, tmp_path: Path) -> None:
    """With the exit code of one."""
    done = CliRunner().invoke(app, ["checkpoint", "ls", str(tmp_path / "nowhere")])
    assert done.exit_code == 2


def test_what_a_newer_version_wrote_is_told_and_takes_no_place(helpers: Command, checkpoints: Path) -> None:
    """Counted among those to keep, it would be all that is left: nothing this version can read."""
    path = checkpoints / "step-00000003"
    (path / "MANIFEST.json").write_bytes(dataclasses.replace(read_manifest(path), format=2).to_bytes())
    assert "has format 2; this version reads up to 1" in helpers("ls").stdout
    newest = json.loads(helpers("ls", "--json").stdout)[2]
    assert (newest["damage"], newest["time"]) == ("", None)
    assert [one.name for one in choose_spare(checkpoints, keep=1, damaged=False)] == ["step-00000001"]
