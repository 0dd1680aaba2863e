"""Staging: one copy a node, whole or not there, whoever dies."""

import itertools
import multiprocessing
import os
import signal
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from helpers.errors import InvalidRequest
from helpers.training import stage
from helpers.training.data import staged_files
from helpers.training.data.staged_files import StagingFailed
from helpers.training.data.staging_progress import Progress, shown
from tests.waiting import wait_for

PATIENCE_S = 120


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A data set of a few files in folders."""
    folder = tmp_path / "shared" / "images"
    for name in ("train/cat.txt", "train/dog.txt", "test/cow.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name * 100)
    (folder / "empty.txt").touch()
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The disk of a node."""
    return tmp_path / "node"


def tree(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_a_folder_is_copied_with_all_that_is_in_it(images: Path, disk: Path) -> None:
    """Links are followed, so that nothing of the copy still reads the shared disk."""
    (images / "linked").symlink_to(images / "test")
    copy = stage(images, to=disk)
    assert copy.name == "images"
    assert copy.is_relative_to(disk)
    assert tree(copy) == tree(images) | {"linked/cow.txt": "test/cow.txt" * 100}
    assert not [path for path in copy.rglob("*") if path.is_symlink()]


def test_a_file_keeps_its_name(images: Path, disk: Path) -> None:
    """Programs go by the suffix."""
    copy = stage(str(images / "train/cat.txt"), to=str(disk))
    assert (copy.name, copy.read_text()) == ("cat.txt", "train/cat.txt" * 100)


def test_several_are_beside_each_other(images: Path, disk: Path) -> None:
    """One folder has them, each under its name."""
    folder = stage([images / "train", images / "empty.txt"], to=disk)
    assert sorted(tree(folder)) == ["empty.txt", "train/cat.txt", "train/dog.txt"]


def test_a_whole_copy_is_used_again(images: Path, disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next job on the node begins at once."""
    first = stage(images, to=disk)
    assert "4 files, 4 kB, done in" in capsys.readouterr().err
    written = (first / "train/cat.txt").stat().st_ino
    assert stage(images, to=disk) == first
    assert (first / "train/cat.txt").stat().st_ino == written
    assert "is staged already in" in capsys.readouterr().err


def test_changed_data_is_copied_beside_the_old_copy(images: Path, disk: Path) -> None:
    """Another job may still read that one."""
    first = stage(images, to=disk)
    (images / "train/cat.txt").write_text("another cat")
    second = stage(images, to=disk)
    assert (second / "train/cat.txt").read_text() == "another cat"
    assert (first / "train/cat.txt").read_text() == "train/cat.txt" * 100


@pytest.mark.parametrize("damage", ["removed", "cut short", "added"])
def test_a_copy_that_is_not_whole_any_more_is_made_anew(images: Path, disk: Path, damage: str) -> None:
    """A node's disk is swept by others."""
    copy = stage(images, to=disk)
    file = copy / "train/cat.txt"
    {
        "removed": file.unlink,
        "cut short": lambda: os.truncate(file, 5),
        "added": (copy / "new.txt").touch,
    }[damage]()
    assert tree(stage(images, to=disk)) == tree(images)


def test_within_an_attempt_the_source_is_looked_at_once(
    images: Path, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight processes of a node would otherwise ask a shared disk for a million files each."""
    monkeypatch.setenv("HELPERS_RUN", str(tmp_path / "run"))
    copy = stage(images, to=disk)
    with monkeypatch.context() as patch:
        patch.setattr(staged_files, "look_at", lambda _: pytest.fail("it was looked at again"))
        assert stage(images, to=disk) == copy
    monkeypatch.setenv("HELPERS_ATTEMPT", "1")
    (images / "new.txt").touch()
    assert stage(images, to=disk) != copy


def test_where_it_goes(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scheduler makes for the job comes first, and the settings before the system's folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    assert stage(images).is_relative_to(tmp_path / "tmp")
    monkeypatch.setenv("HELPERS_NODE_SCRATCH", str(tmp_path / "local"))
    assert stage(images).is_relative_to(tmp_path / "local")
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path / "job"))
    assert stage(images).is_relative_to(tmp_path / "job")
    assert stage(images, to="$SLURM_TMPDIR/deeper").is_relative_to(tmp_path / "job/deeper")


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tgz"])
def test_an_archive_is_unpacked(images: Path, disk: Path, tmp_path: Path, kind: str) -> None:
    """A million small files come faster as one."""
    archive = tmp_path / f"data.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            for name, text in tree(images).items():
                zipped.writestr(name, text)
    else:
        with tarfile.open(archive, "w:gz" if kind.endswith("gz") else "w") as tar:
            tar.add(images, arcname=".")
    copy = stage(archive, to=disk, unpack=True)
    assert (copy.name, tree(copy)) == ("data", tree(images))
    assert stage(archive, to=disk, unpack=True) == copy
    assert (stage(archive, to=disk)).name == f"data.{kind}"


def test_a_damaged_archive_leaves_nothing(disk: Path, tmp_path: Path) -> None:
    """Half of the samples would train half as well."""
    archive = tmp_path / "data.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(__file__, arcname="file")
    os.truncate(archive, archive.stat().st_size // 2)
    with pytest.raises(StagingFailed, match=r"data\.tar\.gz cannot be unpacked: EOFError"):
        stage(archive, to=disk, unpack=True)
    assert leftovers(disk) == []


def leftovers(disk: Path) -> list[str]:
    """What is there beside locks."""
    return [file.name for folder in disk.iterdir() for file in folder.iterdir() if file.suffix != ".lock"]


def test_too_little_space_is_said_before_anything_is_copied(
    images: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour later is too late, and a full disk stops other jobs."""

    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(free=10))
    with pytest.raises(StagingFailed, match=r"images cannot be staged on .*: it needs 4 kB, and .* has 10 B free"):
        stage(images, to=disk)
    assert leftovers(disk) == []


def test_a_disk_that_fills_up_meanwhile_is_named(images: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others write there too."""

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(staged_files, "copy_file", fail)
    with pytest.raises(StagingFailed, match=r"helpers-staged-\d+ is full"):
        stage(images, to=disk)
    assert leftovers(disk) == []


def test_data_that_changes_meanwhile_is_refused(images: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy would be of no version at all."""
    found = staged_files.look_at(images)
    monkeypatch.setattr(staged_files, "look_at", lambda _: found)
    (images / "train/cat.txt").write_text("another")
    with pytest.raises(StagingFailed, match=r"cat\.txt was changed while it was copied"):
        stage(images, to=disk)
    assert leftovers(disk) == []


def test_what_cannot_be_staged_is_refused(images: Path, disk: Path, tmp_path: Path) -> None:
    """Each with what is wrong."""
    with pytest.raises(InvalidRequest, match="There is nothing at /nowhere/at/all on "):
        stage("/nowhere/at/all", to=disk)
    with pytest.raises(InvalidRequest, match="list of paths is empty"):
        stage([], to=disk)
    with pytest.raises(InvalidRequest, match="Two sources have the same name"):
        stage([images, tmp_path / "shared/../shared/images"], to=disk)
    with pytest.raises(InvalidRequest, match="is no archive"):
        stage(images, to=disk, unpack=True)
    with pytest.raises(InvalidRequest, match="holds the folder that it would be copied to"):
        stage(images, to=images / "copy")
    os.mkfifo(images / "pipe")
    with pytest.raises(StagingFailed, match="pipe is neither a file nor a folder"):
        stage(images, to=disk)
    (images / "pipe").unlink()
    (images / "loop").symlink_to(images)
    with pytest.raises(StagingFailed, match="it has no end"):
        stage(images, to=disk)


def stage_slowly(source: Path, disk: Path, begun: Path, answers: Any, *, first_hangs: bool) -> None:
    """Stage in a process that notes each copy of a file, and takes its time."""
    copy_file = staged_files.copy_file

    def slowly(*arguments: Any) -> None:
        hangs = first_hangs and not list(begun.iterdir())
        (begun / f"{os.getpid()}-{arguments[0].name}").touch()
        time.sleep(PATIENCE_S if hangs else 0.2)
        copy_file(*arguments)

    staged_files.copy_file = slowly
    answers.put(str(stage(source, to=disk)))


@pytest.fixture
def begin(request: pytest.FixtureRequest, images: Path, disk: Path, tmp_path: Path) -> Iterator[Any]:
    """Start processes that stage the same data at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.unit.training.data.test_staging"])
    (tmp_path / "begun").mkdir()
    answers: Any = context.SimpleQueue()
    arguments = (images, disk, tmp_path / "begun", answers)
    options = {"first_hangs": request.param}
    processes = [context.Process(target=stage_slowly, args=arguments, kwargs=options) for _ in range(6)]
    for process in processes:
        process.start()
    yield processes, answers
    for process in processes:
        process.kill()
        process.join(PATIENCE_S)
        process.close()
    answers.close()


def copiers(tmp_path: Path) -> list[int]:
    """Return the processes that have begun to copy, the latest last."""
    marks = sorted((tmp_path / "begun").iterdir(), key=lambda mark: mark.stat().st_mtime_ns)
    return [pid for pid, _ in itertools.groupby(int(mark.name.split("-")[0]) for mark in marks)]


@pytest.mark.parametrize("begin", [False], indirect=True, ids=["all live"])
def test_many_processes_make_one_copy(begin: Any, images: Path, tmp_path: Path) -> None:
    """Eight ranks would fill the disk eight times, and read each other's halves."""
    processes, answers = begin
    [answer] = {answers.get() for _ in processes}
    assert len(copiers(tmp_path)) == 1
    assert tree(Path(answer)) == tree(images)


@pytest.mark.parametrize("begin", [True], indirect=True, ids=["one hangs"])
def test_another_takes_over_from_a_copier_that_is_killed(begin: Any, images: Path, disk: Path, tmp_path: Path) -> None:
    """A lock that nobody holds any more would stop all jobs of the node."""
    processes, answers = begin
    [first] = wait_for(lambda: copiers(tmp_path), "one of them copies")
    os.kill(first, signal.SIGKILL)
    [answer] = {answers.get() for _ in processes[1:]}
    assert tree(Path(answer)) == tree(images)
    assert (len(copiers(tmp_path)), copiers(tmp_path)[0]) == (2, first)
    assert [name for name in leftovers(disk) if name.endswith(".partial")] == []


def test_progress_is_a_bar_where_somebody_looks_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not thousands of bars in a log."""
    monkeypatch.setattr("helpers.training.data.staging_progress._BAR_S", 0)
    in_a_log = Progress("staging", 2000)
    in_a_log.add(1000)
    assert capsys.readouterr().err == "helpers: staging: 2 kB\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    bar = Progress("staging", 2000)
    bar.add(1000)
    assert "staging [############            ] 50%, 1 kB of 2 kB" in capsys.readouterr().err
    assert (shown(12_300_000), shown(4.5e12)) == ("12 MB", "4500.0 GB")
