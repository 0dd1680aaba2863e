"""An archive is proved whole before anybody relies on it, and gives the run back as it was."""

import gzip
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers import InvalidRequest, submit
from helpers.cli.main import app
from helpers.project.archive import archive_run, restore_run, verify_archive
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, Status, write_status
from tests.unit.submission import functions


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that has ended, with a result, a link, and two names of one file."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("PWD", str(project))
    monkeypatch.delenv("HELPERS_RUNS", raising=False)
    folder = submit(functions.add, 1, 2, cluster="inline", name="net").folder
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "weights").write_bytes(os.urandom(5000))
    (folder / "checkpoints" / "best").hardlink_to(folder / "checkpoints" / "weights")
    (folder / "latest").symlink_to("checkpoints/weights")
    (folder / "odd\nname").write_text("odd")
    return folder


def contents(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Return mode and content of all that a folder holds."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def test_a_run_comes_back_as_it_was(run: Path, tmp_path: Path) -> None:
    """Years later, from a tape."""
    before = contents(run)
    archived = archive_run(run, tmp_path / "tape")
    assert archived.file == tmp_path / "tape" / f"net-{run.name}.tar.gz"
    restored = restore_run(archived.file, tmp_path / "runs")
    assert restored.run == tmp_path / "runs" / "net" / run.name
    assert contents(restored.run) == before
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["net"]


def test_the_archive_is_for_its_owner_alone(run: Path, tmp_path: Path) -> None:
    """It holds what ``private/`` holds."""
    assert archive_run(run, tmp_path).file.stat().st_mode & 0o777 == 0o600


def test_a_flipped_bit_is_found_and_nothing_is_restored(run: Path, tmp_path: Path) -> None:
    """Tapes rot."""
    file = archive_run(run, tmp_path).file
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(InvalidRequest):
        restore_run(file, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_damage_that_gzip_does_not_see_is_found_by_name(run: Path, tmp_path: Path) -> None:
    """Packed again by somebody, the archive's own checksums are right, and the content is not."""
    file = archive_run(run, tmp_path).file
    weights = (run / "checkpoints" / "weights").read_bytes()
    plain = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(plain.replace(weights, weights[:-1] + bytes([weights[-1] ^ 1]))))
    with pytest.raises(InvalidRequest, match=f"net/{run.name}/checkpoints/best is not what was packed"):
        verify_archive(file)


def test_an_archive_that_is_not_the_one_is_found_by_the_checksum_beside_it(run: Path, tmp_path: Path) -> None:
    """``sha256sum --check`` reads the same file."""
    file = archive_run(run, tmp_path).file
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()), compresslevel=9))
    with pytest.raises(InvalidRequest, match="is not the file that"):
        verify_archive(file)


def test_a_run_that_has_not_ended_is_not_packed(run: Path, tmp_path: Path) -> None:
    """What it writes next would be missing."""
    write_status(RunFolder(run), Status(state=State.RUNNING, job_id="1", attempt=0))
    with pytest.raises(InvalidRequest, match="has not ended"):
        archive_run(run, tmp_path / "tape")
    assert not (tmp_path / "tape").exists()


def test_nothing_is_overwritten(run: Path, tmp_path: Path) -> None:
    """Neither an archive nor a run."""
    file = archive_run(run, tmp_path / "tape").file
    with pytest.raises(InvalidRequest, match="is there already"):
        archive_run(run, tmp_path / "tape")
    with pytest.raises(InvalidRequest, match="is there already: nothing was restored"):
        restore_run(file, run.parent.parent)


def test_the_command_packs_removes_and_restores(run: Path, tmp_path: Path) -> None:
    """A run's id is not needed: inline runs have none."""

    def command(*words: str) -> str:
        done = CliRunner().invoke(app, ["archive", *words])
        assert done.exit_code == 0, done.stderr
        return done.stdout

    (record,) = json.loads(command(str(run), "--to", str(tmp_path / "tape"), "--remove", "--json"))
    assert not run.exists()
    assert "every checksum is right" in command("--verify", record["file"])
    assert str(run) in command("--restore", record["file"])
    assert (run / "status.json").exists()


@pytest.mark.parametrize("words", [[], ["RUN", "--verify", "x"], ["--verify", "x", "--restore", "y"]])
def test_the_command_wants_one_thing(run: Path, words: list[str]) -> None:
    """Packing and restoring at once has no meaning."""
    refused = CliRunner().invoke(app, ["archive", *(str(run) if word == "RUN" else word for word in words)])
    assert (refused.exit_code, "takes runs, or --restore, or --verify" in refused.stderr) == (2, True)


def test_without_a_place_for_archives_the_setting_is_named(run: Path) -> None:
    """Beside the run it would be lost with it."""
    refused = CliRunner().invoke(app, ["archive", str(run)])
    assert (refused.exit_code, "No setting says where archives go" in refused.stderr) == (2, True)
