"""Case C41: "immutable" data that can be changed, or cannot be deleted. Each change is found, by its file's name."""

import contextlib
import itertools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.project.raw_data.adding import add
from helpers.project.raw_data.locking import unlock
from helpers.runtime.raw_data.area import raw_area
from tests.unit.project.raw_data.conftest import Helpers, Run, install_hook, make_writable, write_raw

NOBODY = 65534
AS_ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="to try as another user takes root")


def overwrite(project: Path) -> None:
    (project / "data/raw/a.csv").chmod(0o644)
    (project / "data/raw/a.csv").write_text("9,9\n")  # of the same size


def append(project: Path) -> None:
    command = ["sh", "-c", "chmod u+w b.csv; echo 5,6 >> b.csv"]
    subprocess.run(command, cwd=project / "data/raw/scans", check=True)


def delete(project: Path) -> None:
    make_writable(project / "data/raw")
    (project / "data/raw/a.csv").unlink()


def put_beside(project: Path) -> None:
    write_raw(project, "c.csv", "7,8\n")


def move_away(project: Path) -> None:
    make_writable(project / "data/raw")
    (project / "data/raw/a.csv").rename(project / "a.csv")


def replace_by_rename(project: Path) -> None:
    make_writable(project / "data/raw")
    (project / "new").write_text("0,0\n")
    (project / "new").replace(project / "data/raw/a.csv")


CHANGES = {
    "overwritten from Python": (overwrite, "changed: data/raw/a.csv"),
    "appended to in a shell": (append, "changed: data/raw/scans/b.csv"),
    "deleted": (delete, "deleted: data/raw/a.csv"),
    "an undeclared third": (put_beside, "undeclared: data/raw/c.csv"),
    "renamed away": (move_away, "deleted: data/raw/a.csv"),
    "replaced by a rename": (replace_by_rename, "changed: data/raw/a.csv"),
}
each_change = pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)


@each_change
def test_a_change_is_found_by_the_check_and_blocks_the_commit(
    project: Path, git: Run, helpers: Helpers, change: object, words: str
) -> None:
    """Also as root, whom no write bit stops."""
    change(project)  # type: ignore[operator]
    found = helpers(project, "verify")
    assert (found.exit_code, words in found.stdout) == (1, True), found.stdout
    git(project, "add", "--all")
    refused = git(project, "commit", "-m", "Nothing to see here")
    assert refused.returncode != 0
    assert words in refused.stdout + refused.stderr


@each_change
def test_a_change_in_a_clone_is_found_too(  # noqa: PLR0917 -- fixtures
    project: Path, git: Run, helpers: Helpers, tmp_path: Path, change: object, words: str
) -> None:
    """A clone has neither write bits taken away nor any memory of times."""
    git(tmp_path, "clone", "--quiet", str(project), "clone")
    clone = tmp_path / "clone"
    install_hook(clone)
    change(clone)  # type: ignore[operator]
    git(clone, "add", "--all")
    refused = git(clone, "commit", "-m", "Nothing to see here")
    assert refused.returncode != 0
    assert words in refused.stdout + refused.stderr
    assert helpers(clone, "verify", "--full").exit_code == 1


def test_a_deletion_past_the_hook_is_found_in_a_clone(
    project: Path, git: Run, helpers: Helpers, tmp_path: Path
) -> None:
    """CI has nothing but a fresh clone: git has the file no more, and it was never seen there."""
    make_writable(project / "data/raw")
    git(project, "rm", "--quiet", "data/raw/a.csv")
    assert git(project, "commit", "--no-verify", "-m", "Tidy up").returncode == 0
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "clone")
    found = helpers(tmp_path / "clone", "verify", "--full")
    assert (found.exit_code, found.stdout) == (1, "data/raw: 1 deleted, 1 ok\n  deleted: data/raw/a.csv\n")


def test_what_git_does_not_keep_is_not_fetched_in_a_clone(
    project: Path, git: Run, helpers: Helpers, tmp_path: Path
) -> None:
    """A clone without the large files is no fault."""
    (project / ".gitignore").write_text("/data/raw/*\n")
    write_raw(project, "large.tar", "much\n")
    helpers(project, "add", "data/raw/large.tar")
    git(project, "add", "--all")
    assert git(project, "commit", "-m", "More data").returncode == 0
    git(tmp_path, "clone", "--quiet", str(project), "clone")
    found = helpers(tmp_path / "clone", "verify", "--full")
    expected = "data/raw: 1 not fetched, 2 ok\n  not fetched: data/raw/large.tar\n"
    assert (found.exit_code, found.stdout) == (0, expected)


def test_in_a_clone_missing_protection_is_reported_and_restored(
    project: Path, git: Run, helpers: Helpers, tmp_path: Path
) -> None:
    """Git keeps no write bit."""
    git(tmp_path, "clone", "--quiet", str(project), "clone")
    clone = tmp_path / "clone"
    assert "not locked: 4 files or folders (helpers data lock)" in helpers(clone, "status").stdout
    assert "not locked, as after a clone: 4 files or folders" in helpers(clone, "guard").stderr
    assert helpers(clone, "lock").exit_code == 0
    assert "not locked" not in helpers(clone, "status").stdout
    places = [clone / "data/raw" / name for name in ("", "a.csv", "scans", "scans/b.csv")]
    assert [stat.S_IMODE(place.stat().st_mode) & 0o222 for place in places] == [0, 0, 0, 0]


def test_adding_stays_possible(project: Path, git: Run, helpers: Helpers, tmp_path: Path) -> None:
    """A file from elsewhere is copied into the locked folder; one that is declared is not changed by that."""
    (tmp_path / "new.csv").write_text("7,8\n")
    added = helpers(project, "add", tmp_path / "new.csv")
    assert (added.exit_code, added.stdout) == (0, "declared: data/raw/new.csv\n"), added.stderr
    git(project, "add", "--all")
    assert git(project, "commit", "-m", "More data").returncode == 0
    (tmp_path / "new.csv").write_text("0,0\n")
    refused = helpers(project, "add", tmp_path / "new.csv")
    assert refused.exit_code == 2
    assert "data/raw/new.csv would become another" in refused.stderr
    assert (project / "data/raw/new.csv").read_text() == "7,8\n"


def test_a_change_on_purpose_is_possible_and_visible(project: Path, git: Run, helpers: Helpers) -> None:
    """It takes a word of its own, and leaves a changed line in the manifest."""
    helpers(project, "unlock")
    write_raw(project, "a.csv", "one, two\n")
    assert "data/raw/a.csv would become another" in helpers(project, "add", "data/raw/a.csv").stderr
    done = helpers(project, "add", "--replace", "data/raw/a.csv")
    assert done.stdout == "declared anew: data/raw/a.csv\n"
    git(project, "add", "--all")
    assert git(project, "commit", "-m", "A corrected file").returncode == 0
    assert git(project, "show", "--stat", "--format=").stdout.count("data/raw.manifest") == 1


@pytest.fixture
def nobodys(project: Path) -> Path:
    """The project, as that of a user who is not root."""
    for place in (project, *project.rglob("*")):
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
    top = Path(tempfile.gettempdir())
    for parent in itertools.takewhile(lambda parent: parent != top, project.parents):
        parent.chmod(0o711)
    os.chown(project.parent, NOBODY, NOBODY)
    return project


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Have this process ask for files as another user does."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@AS_ROOT_ONLY
def test_as_a_user_nothing_is_changed_at_all(nobodys: Path) -> None:
    """Write bits stop the accident before it happens: of the file, and of the folder, by which it is replaced."""
    tries = "echo 9 > a.csv; echo 9 >> scans/b.csv; rm -f a.csv; echo 9 > c.csv; mv a.csv ../a.csv; true"
    subprocess.run(["sh", "-c", tries], cwd=nobodys / "data/raw", user=NOBODY, capture_output=True, check=True)
    found = {path.name: path.read_text() for path in (nobodys / "data/raw").rglob("*.csv")}
    assert found == {"a.csv": "1,2\n", "b.csv": "3,4\n"}


@AS_ROOT_ONLY
def test_as_a_user_a_file_is_added_to_the_locked_folder(nobodys: Path) -> None:
    """The folder is opened for as long as that takes, and closed again."""
    new = nobodys.parent / "new.csv"
    new.write_text("7,8\n")
    new.chmod(0o644)
    with as_nobody():
        added = add(raw_area(nobodys), [new])
    assert (added.new, added.unprotected) == (["new.csv"], {})
    places = [nobodys / "data/raw", nobodys / "data/raw/new.csv"]
    assert [stat.S_IMODE(place.stat().st_mode) & 0o222 for place in places] == [0, 0]


@AS_ROOT_ONLY
def test_as_a_user_the_project_is_removed_by_the_documented_command(nobodys: Path) -> None:
    """``rm -rf`` alone cannot empty a locked folder; ``helpers data unlock && rm -rf`` can."""
    remove = ["rm", "-rf", str(nobodys)]
    assert subprocess.run(remove, user=NOBODY, capture_output=True, check=False).returncode != 0
    area = raw_area(nobodys)
    with as_nobody():
        assert unlock(area).failed == {}
    subprocess.run(remove, user=NOBODY, check=True)
    assert not nobodys.exists()


def test_a_tests_own_copy_can_be_removed(project: Path, helpers: Helpers, tmp_path: Path) -> None:
    """A copy keeps the bits of the original: unlocked, it goes as any folder."""
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    assert helpers(copy, "unlock").exit_code == 0
    places = list((copy / "data/raw").rglob("*"))
    assert places
    assert all(path.stat().st_mode & stat.S_IWUSR for path in places)
    shutil.rmtree(copy)
    assert not copy.exists()


def test_root_is_told_that_bits_do_not_stop_it(project: Path, helpers: Helpers) -> None:
    """Who works as root in a container must not feel safe."""
    said = helpers(project, "lock").stderr
    assert ("you are root, whom write bits do not stop" in said) == (os.geteuid() == 0)
