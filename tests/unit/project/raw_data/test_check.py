"""A check is quick where nothing has changed, and wrong nowhere."""

import os
from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.project.raw_data import reference
from helpers.project.raw_data.adding import add, forget
from helpers.project.raw_data.reference import add_reference
from helpers.runtime.raw_data import check as checking
from helpers.runtime.raw_data.area import all_areas, raw_area, raw_folders
from helpers.runtime.raw_data.check import State, check
from tests.unit.project.raw_data.conftest import LONG_AGO_S, Run, write_raw


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A project outside git with one declared file."""
    write_raw(tmp_path, "a.csv", "1,2\n")
    add(raw_area(tmp_path), [tmp_path / "data/raw"])
    return tmp_path


def found(project: Path, *, full: bool = False, read_at_most: float = 1e9) -> dict[str, State]:
    report = check(raw_area(project), full=full, read_at_most=read_at_most)
    return {finding.path: finding.state for finding in report.findings}


def put(folder: Path, name: str, text: str, *, age_s: int = 0) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (LONG_AGO_S - age_s, LONG_AGO_S - age_s))
    return file


def test_nothing_is_read_where_size_and_time_are_known(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit does not wait for terabytes."""
    read: list[str] = []
    monkeypatch.setattr(checking, "read_files", lambda _area, paths: read.extend(paths) or [])
    assert found(raw) == {}
    assert read == []


def test_a_file_that_was_only_touched_is_read_and_found_well(raw: Path) -> None:
    """Another time is no change yet."""
    os.utime(raw / "data/raw/a.csv", (LONG_AGO_S + 99, LONG_AGO_S + 99))
    assert found(raw) == {}


def test_damage_that_keeps_size_and_time_is_found_by_reading_all(raw: Path) -> None:
    """A rotten disk touches no time."""
    file = raw / "data/raw/a.csv"
    before = file.stat()
    file.chmod(0o644)
    file.write_text("9,9\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(raw) == {}
    assert found(raw, full=True) == {"a.csv": State.CHANGED}
    assert found(raw) == {"a.csv": State.CHANGED}, "what was read once is known"


def test_what_is_too_large_to_read_now_is_no_false_peace(raw: Path) -> None:
    """A touched file may be another; one that was never read here is not known to be wrong."""
    os.utime(raw / "data/raw/a.csv", (LONG_AGO_S + 99, LONG_AGO_S + 99))
    assert found(raw, read_at_most=0) == {"a.csv": State.CHANGED}
    raw_area(raw).times.unlink()
    assert found(raw, read_at_most=0) == {"a.csv": State.UNVERIFIED}
    assert found(raw) == {}


def test_a_file_changed_just_now_is_read_again(tmp_path: Path) -> None:
    """Within one tick of the clock a second change leaves the same size and time."""
    file = write_raw(tmp_path, "a.csv", "1,2\n")
    os.utime(file)
    add(raw_area(tmp_path), [file])
    now = file.stat()
    file.chmod(0o644)
    file.write_text("9,9\n")
    os.utime(file, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert found(tmp_path) == {"a.csv": State.CHANGED}


def test_a_file_that_was_never_here_is_not_fetched_and_no_fault(raw: Path) -> None:
    """A clone without the large files must be able to commit."""
    raw_area(raw).times.unlink()
    (raw / "data/raw").chmod(0o755)
    (raw / "data/raw/a.csv").unlink()
    assert found(raw) == {"a.csv": State.NOT_FETCHED}


def test_a_file_that_git_has_is_deleted_when_it_is_missing(empty: Path, git: Run) -> None:
    """A clone brings it, so somebody took it away."""
    file = write_raw(empty, "a.csv", "1,2\n")
    add(raw_area(empty), [file])
    git(empty, "add", "--all")
    git(empty, "commit", "-m", "Raw data")
    raw_area(empty).times.unlink()
    (empty / "data/raw").chmod(0o755)
    git(empty, "rm", "-f", "--quiet", "data/raw/a.csv")
    assert found(empty) == {"a.csv": State.DELETED}


def test_a_note_of_git_lfs_in_place_of_the_file_is_not_fetched(raw: Path) -> None:
    """A clone without git-lfs, or with its download switched off, has nothing else; another file's note is a change."""
    entry = raw_area(raw).manifest.entries["a.csv"]
    note = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
    write_raw(raw, "a.csv", note.format(entry.sha256, entry.size))
    assert found(raw) == {"a.csv": State.NOT_FETCHED}
    write_raw(raw, "a.csv", note.format("0" * 64, entry.size))
    assert found(raw) == {"a.csv": State.CHANGED}


@pytest.mark.parametrize("name", ["README.md", "scans/.gitkeep", ".gitignore", ".nfs000123"])
def test_what_describes_the_data_need_not_be_declared(raw: Path, name: str) -> None:
    """The README beside the data changes with what is known of it."""
    write_raw(raw, name, "words\n")
    assert found(raw) == {}


def test_odd_files_are_named_and_never_opened(raw: Path) -> None:
    """Reading a pipe would hang the commit."""
    (raw / "data/raw").chmod(0o755)
    os.mkfifo(raw / "data/raw/pipe")
    (raw / "data/raw/dead").symlink_to("nowhere")
    (raw / "data/raw/folder").symlink_to(raw)
    assert found(raw) == dict.fromkeys(("pipe", "dead", "folder"), State.UNDECLARED)
    for name in ("pipe", "dead", "folder"):
        with pytest.raises(InvalidRequest, match="is no file: a link to a folder or to nothing, or a pipe"):
            add(raw_area(raw), [raw / "data/raw" / name])


def test_a_link_to_a_file_is_judged_by_what_is_there_and_not_locked(raw: Path, tmp_path: Path) -> None:
    """The file is somebody else's."""
    elsewhere = put(tmp_path / "elsewhere", "b.csv", "3,4\n")
    (raw / "data/raw").chmod(0o755)
    (raw / "data/raw/b.csv").symlink_to(elsewhere)
    add(raw_area(raw), [raw / "data/raw/b.csv"])
    assert elsewhere.stat().st_mode & 0o200
    elsewhere.write_text("9,9\n")
    assert found(raw) == {"b.csv": State.CHANGED}


def test_adding_is_all_or_nothing(raw: Path, tmp_path: Path) -> None:
    """A refusal half-way would leave files that nobody has declared."""
    new, taken = put(tmp_path / "in", "new.csv", "5\n"), put(tmp_path / "in", "a.csv", "6\n")
    with pytest.raises(InvalidRequest, match=r"data/raw/a\.csv would become another"):
        add(raw_area(raw), [new, taken])
    assert not (raw / "data/raw/new.csv").exists()
    assert list(raw_area(raw).manifest.entries) == ["a.csv"]


def test_what_must_not_be_kept_can_be_forgotten(raw: Path) -> None:
    """Somebody may withdraw consent; the manifest then says no more."""
    assert forget(raw_area(raw), [raw / "data/raw/a.csv"]) == ["a.csv"]
    assert found(raw) == {"a.csv": State.UNDECLARED}
    with pytest.raises(InvalidRequest, match="is not declared"):
        forget(raw_area(raw), [raw / "data/raw/a.csv"])


class TestReference:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        """Data of another owner."""
        put(tmp_path / "stores/big", "x.bin", "1234")
        put(tmp_path / "stores/big", "sub/y.bin", "5678")
        return tmp_path / "stores/big"

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """A project that refers to it."""
        (tmp_path / "project").mkdir()
        return tmp_path / "project"

    def states(self, project: Path, data: Path | None = None) -> dict[str, State]:
        (area,) = all_areas(project, data)
        return {finding.path: finding.state for finding in check(area).findings}

    @pytest.mark.parametrize("checksums", [True, False])
    def test_it_is_listed_and_not_touched(self, project: Path, store: Path, checksums: bool) -> None:
        """500 GB are neither copied nor made read-only."""
        before = [(path, path.stat().st_mode, path.stat().st_mtime_ns) for path in sorted(store.rglob("*"))]
        add_reference(project, store, checksums=checksums)
        assert [(path, path.stat().st_mode, path.stat().st_mtime_ns) for path in sorted(store.rglob("*"))] == before
        assert self.states(project) == {}
        put(store, "x.bin", "4321", age_s=5)
        assert self.states(project) == {"x.bin": State.CHANGED}

    def test_nothing_is_read_in_a_clone_either(
        self, project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its times are in the manifest, and hold in every clone."""
        add_reference(project, store)
        (project / ".helpers-cache/big.times.json").unlink()
        monkeypatch.setattr(checking, "read_files", lambda _area, paths: [None for _ in paths])
        assert self.states(project) == {}

    def test_below_the_folder_of_data_it_is_found_on_another_cluster(
        self, project: Path, store: Path, tmp_path: Path
    ) -> None:
        """The setting says where data is; the manifest does not repeat it."""
        add_reference(project, store, data=tmp_path / "stores")
        assert (project / "data/big.manifest").read_text().splitlines()[0] == "# root: {storage.data}/big"
        store.parent.rename(tmp_path / "moved")
        assert self.states(project, tmp_path / "moved") == {}
        with pytest.raises(InvalidRequest, match=r"no setting says where storage\.data is here"):
            all_areas(project, None)

    def test_a_file_that_came_is_added_and_one_that_changed_is_refused(self, project: Path, store: Path) -> None:
        """The same rule as for data of our own."""
        add_reference(project, store)
        put(store, "z.bin", "9")
        assert add_reference(project, store).new == ["z.bin"]
        put(store, "z.bin", "8", age_s=5)
        with pytest.raises(InvalidRequest, match=r"z\.bin would become another"):
            add_reference(project, store)
        assert add_reference(project, store, replace_declared=True).replaced == ["z.bin"]

    @pytest.mark.parametrize("name", ["raw", "a/b", "", "-x"])
    def test_a_name_that_is_none_is_refused(self, project: Path, store: Path, name: str) -> None:
        """It becomes that of a file beside ``raw.manifest``."""
        with pytest.raises(InvalidRequest, match="A reference is named by letters"):
            add_reference(project, store, name=name)

    def test_too_many_files_for_git_are_refused(
        self, project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A million lines belong into no commit."""
        monkeypatch.setattr(reference, "MOST_FILES", 1)
        with pytest.raises(InvalidRequest, match="holds 2 files; a manifest in git takes 1 at most"):
            add_reference(project, store)

    def test_a_container_gets_all_folders_of_raw_data(self, project: Path, store: Path) -> None:
        """What is mounted read-only cannot be changed by the job, not even as root."""
        add_reference(project, store)
        (project / "data/raw").mkdir()
        assert raw_folders(project) == [(project / "data/raw").resolve(), store.resolve()]
