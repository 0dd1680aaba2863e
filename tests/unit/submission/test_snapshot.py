"""The project's source is kept as it was submitted, once for equal content, at no cost where nothing changed."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.source import Source, changed_since
from helpers.submission import project_files, snapshot
from helpers.submission.snapshot import Taken, find_root, take_source

ROOT = Path(__file__).parents[3]
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *IDENTITY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def code(project: Path) -> Iterator[Path]:
    """A project in git, with data, an ignored environment, and settings that are secret."""
    folder = project / "digits"
    write(
        folder,
        {
            "pyproject.toml": "[tool.helpers]\n",
            ".gitignore": "/runs/\n/.venv/\n__pycache__/\n/results/\n",
            "src/digits/__init__.py": "",
            "src/digits/train.py": "def train():\n    return 'old'\n",
            "src/digits/words.yaml": "lr: 1\n",
            "data/raw/table.csv": "1,2\n",
            "reports/.gitkeep": "",
            "results/out.txt": "1\n",
            ".venv/lib/site-packages/other.py": "",
            ".env": "TOKEN=1\n",
        },
    )
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", ":!.env")
    git(folder, "commit", "-q", "-m", "begin")
    snapshot._known.clear()
    snapshot._said.clear()
    yield folder
    snapshot._known.clear()


def take(folder: Path) -> Taken:
    taken = take_source(folder, folder / "runs", wanted=True)
    assert taken is not None
    return taken


def settle(folder: Path) -> Taken:
    """Submit until this process knows the project, and all of it is older than the last look."""
    take(folder)  # makes the folder of runs
    time.sleep(2 * project_files._RACY_S)
    known = take(folder)
    assert take(folder) is known
    return known


def copy_of(folder: Path) -> Path:
    found = take(folder).source.snapshot
    assert found is not None
    return Path(found)


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs" / ".snapshots").iterdir())


def test_source_is_copied_and_the_rest_linked(code: Path) -> None:
    """A path from ``__file__`` must lead to data and results as it did; copies are what an edit cannot reach."""
    copy = copy_of(code)
    kinds = {path.name: path.is_symlink() for path in copy.iterdir()}
    assert kinds == {
        "pyproject.toml": False,
        ".gitignore": False,
        "src": False,
        "data": True,
        "reports": True,
        "results": True,
        ".venv": True,
        ".env": True,
    }


def test_an_edit_does_not_reach_the_snapshot(code: Path) -> None:
    """In place, as many editors write: a hard link to the user's file would follow."""
    copy = copy_of(code)
    with (code / "src/digits/train.py").open("r+") as file:
        file.write("def train():\n    return 'new'\n")
    assert "old" in (copy / "src/digits/train.py").read_text()


def test_untracked_files_are_source_too(code: Path) -> None:
    """What is tried out is not committed yet."""
    write(code, {"src/digits/idea.py": "x = 1\n"})
    assert (copy_of(code) / "src/digits/idea.py").read_text() == "x = 1\n"


def test_equal_content_is_kept_once(code: Path) -> None:
    """Also after an edit that was taken back, and in another process."""
    first = copy_of(code)
    write(code, {"src/digits/train.py": "changed\n"})
    copy_of(code)
    write(code, {"src/digits/train.py": "def train():\n    return 'old'\n"})
    snapshot._known.clear()
    assert (copy_of(code), len(snapshots(code))) == (first, 2)


def test_an_unchanged_file_is_not_copied_again(code: Path) -> None:
    """A hundred edits of one file are not a hundred projects on the disk."""
    first = copy_of(code)
    write(code, {"src/digits/train.py": "changed\n"})
    second = copy_of(code)
    words = "src/digits/words.yaml"
    assert (first != second, (first / words).samefile(second / words)) == (True, True)


def test_nothing_is_run_or_read_where_nothing_changed(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of submissions pays once."""
    known = settle(code)

    def fail(*_args: Any, **_keywords: Any) -> None:
        raise AssertionError("asked again")

    for name in ("list_project", "read_git_state", "_digest"):
        monkeypatch.setattr(snapshot, name, fail)
    assert take(code) is known


@pytest.mark.parametrize("name", ["src/digits/train.py", "src/digits/new.py", "src/new/deep.py", "empty/a.yaml"])
def test_every_change_is_seen(code: Path, name: str) -> None:
    """Of the same size; in a new folder too, and in one that was empty."""
    (code / "empty").mkdir()
    first = settle(code).source.snapshot
    write(code, {name: "def train():\n    return 'OLD'\n"})
    second = copy_of(code)
    assert (first != str(second), (second / name).read_text()) == (True, "def train():\n    return 'OLD'\n")


def test_results_that_git_ignores_are_no_change(code: Path) -> None:
    """Each run writes some, and each submission would list the project anew."""
    known = settle(code)
    write(code, {"results/more.txt": "2\n"})
    assert take(code) is known


def test_a_change_within_the_same_tick_is_seen(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system's clock has ticks of some milliseconds: what is as young as the look at it is read again."""
    known = settle(code)
    monkeypatch.setattr(project_files, "_RACY_S", 3600)
    assert take(code) is not known


def test_a_deleted_file_is_seen(code: Path) -> None:
    """Tracked, and not there."""
    settle(code)
    (code / "src/digits/train.py").unlink()
    assert not (copy_of(code) / "src/digits/train.py").exists()


def test_a_folder_made_later_is_linked_too(code: Path) -> None:
    """The snapshot is shared with runs that were submitted before there were results."""
    write(code, {"results2/.gitignore": "*\n"})
    copy = copy_of(code)
    assert ((copy / "results2").is_symlink(), len(snapshots(code))) == (True, 1)


def test_a_large_file_is_linked(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights beside the code: the job finds them, and nobody copies them."""
    monkeypatch.setattr(project_files, "FILE_LIMIT_MB", 1)
    write(code, {"src/digits/weights.json": "x" * 2 * 2**20})
    assert (copy_of(code) / "src/digits/weights.json").is_symlink()


@pytest.mark.parametrize(("limit", "words"), [("TOTAL_LIMIT_MB", "the limit is 0 MiB"), ("FILES_LIMIT", "files; the")])
def test_a_project_that_is_too_large_is_said_and_not_copied(
    code: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], limit: str, words: str
) -> None:
    """Half a snapshot would be worse than none."""
    monkeypatch.setattr(project_files, limit, 0)
    taken = take(code)
    said = capfd.readouterr().err
    assert (taken.source.snapshot, words in taken.source.without, "no snapshot of" in said) == (None, True, True)
    assert not (code / "runs").exists()


def test_a_project_that_takes_too_long_is_said(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on another continent."""
    monkeypatch.setattr(snapshot, "TIME_LIMIT_S", -1.0)
    assert "more than" in take(code).source.without


def test_commit_and_changes_are_those_of_the_submission(code: Path) -> None:
    """Figures of a run are explained by them."""
    write(code, {"src/digits/train.py": "def train():\n    return 'edited'\n"})
    taken = take(code)
    source = taken.source
    assert (source.commit, source.branch, source.edited) == (git(code, "rev-parse", "HEAD"), "main", True)
    assert b"+    return 'edited'" in taken.difference


def test_a_commit_is_seen_though_no_file_changes(code: Path) -> None:
    """The next submission is of another commit."""
    write(code, {"src/digits/train.py": "edited\n"})
    before = settle(code)
    git(code, "commit", "-q", "-a", "-m", "more")
    after = take(code)
    assert (before.source.snapshot == after.source.snapshot, before.source.edited, after.source.edited) == (
        True,
        True,
        False,
    )
    assert after.source.commit == git(code, "rev-parse", "HEAD")


def test_a_project_without_git_is_kept_too(code: Path) -> None:
    """By what is neither hidden nor made."""
    for name in (".git", ".gitignore"):
        subprocess.run(["rm", "-rf", code / name], check=True)
    copy = copy_of(code)
    assert ((copy / "src/digits/train.py").is_symlink(), (copy / ".venv").is_symlink()) == (False, True)
    assert take(code).source.commit is None


def test_a_repository_without_settings_is_a_project(code: Path) -> None:
    """The library alone, without the template."""
    (code / "pyproject.toml").unlink()
    assert find_root(code / "src" / "digits") == code


def test_a_folder_of_no_project_has_no_source(tmp_path: Path) -> None:
    """A scratch folder may hold anything."""
    assert take_source(tmp_path, tmp_path / "runs", wanted=True) is None


def test_a_home_folder_in_git_is_no_project(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some keep their settings that way."""
    (code / "pyproject.toml").unlink()
    monkeypatch.setenv("HOME", str(code))
    assert find_root(code / "src") is None


def test_without_a_snapshot_a_change_since_is_told(code: Path) -> None:
    """The job then runs what it finds."""
    taken = take_source(code, code / "runs", wanted=False)
    assert taken is not None
    assert changed_since(taken.source) == ""
    write(code, {"src/digits/train.py": "edited\n"})
    assert "has changed since this was submitted" in changed_since(taken.source)


class TestSearchPath:
    """Where a path of the caller leads in the job."""

    @pytest.fixture
    def source(self, code: Path) -> Source:
        return take(code).source

    def test_a_folder_of_source_leads_into_the_snapshot(self, code: Path, source: Source) -> None:
        """The one that matters."""
        assert source.search_path([str(code / "src")]) == [f"{source.snapshot}/src"]

    def test_an_environment_in_the_project_stays(self, code: Path, source: Source) -> None:
        """It is only linked: packages in two places would be two packages."""
        place = str(code / ".venv" / "lib" / "site-packages")
        assert source.search_path([place]) == [place]

    def test_what_lies_elsewhere_stays(self, source: Source) -> None:
        """The standard library."""
        assert source.search_path(sys.path[-2:]) == sys.path[-2:]

    def test_a_path_through_a_link_leads_there_too(self, code: Path, source: Source) -> None:
        """``/home/me`` may be a link."""
        link = code.parent / "link"
        link.symlink_to(code)
        assert source.search_path([str(link / "src")]) == [f"{source.snapshot}/src"]

    def test_a_project_that_is_itself_the_package_comes_first(self, code: Path, source: Source) -> None:
        """``import digits.src`` from the folder above."""
        assert source.search_path([str(code.parent)]) == [str(Path(source.snapshot or "").parent), str(code.parent)]


def launch(folder: Path, text: str, *, python: str = sys.executable, **variables: str) -> str:
    """Run a user's script in the project, and return what it printed."""
    script = folder / "launch.py"
    script.write_text(textwrap.dedent(text))
    environment = {**os.environ, "PWD": str(folder), **variables}
    done = subprocess.run([python, script], capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


EDITS = """\
    import sys
    {path}
    from pathlib import Path
    from digits.train import train
    from helpers import submit
    if __name__ == "__main__":
        gate = "until [ -e gate ]; do sleep 0.05; done"
        job = submit(train, cluster="local", setup=gate)
        Path("src/digits/train.py").write_text("def train():\\n    return 'new'\\n")
        Path("gate").touch()
        print(job.result(60), (job.folder / "provenance.json").exists())
        print(job.logs())
"""


def test_an_edit_made_while_the_job_waits_changes_nothing(code: Path) -> None:
    """The purpose of it all."""
    assert launch(code, EDITS.format(path='sys.path.insert(0, "src")')).startswith("old")


def test_switched_off_the_job_runs_the_edit_and_says_so(code: Path) -> None:
    """What ``HELPERS_SNAPSHOT=0`` means."""
    printed = launch(code, EDITS.format(path='sys.path.insert(0, "src")'), HELPERS_SNAPSHOT="0")
    assert printed.startswith("new")
    assert "has changed since this was submitted" in printed


@pytest.mark.parametrize("how", ["pth", "finder", "namespace finder"])
def test_a_package_in_editable_mode_comes_from_the_snapshot(code: Path, how: str) -> None:
    """How a generated project is installed: no path of the script leads to it."""
    python = environment_with_editable(code, how)
    if how == "namespace finder":
        (code / "src/digits/__init__.py").unlink()
    assert launch(code, EDITS.format(path=""), python=str(python)).startswith("old")


def environment_with_editable(code: Path, how: str) -> Path:
    """Make an environment as ``pip install --editable`` leaves it, with this one's packages."""
    folder = code.parent / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    ours = [entry for entry in sys.path if entry.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({entry!r})" for entry in ours] + [str(ROOT)]
    (packages / "a_base.pth").write_text("\n".join(lines) + "\n")
    if how == "pth":
        (packages / "__editable__.digits.pth").write_text(f"{code}/src\n")
    else:
        finder = FINDER.replace("SRC", str(code / "src")).replace("IS_NAMESPACE", str(how == "namespace finder"))
        (packages / "__editable___digits_finder.py").write_text(textwrap.dedent(finder))
        (packages / "__editable__.digits.pth").write_text(
            "import __editable___digits_finder; __editable___digits_finder.install()\n"
        )
    return folder / "bin" / "python"


FINDER = """\
    import sys
    from importlib.machinery import ModuleSpec, PathFinder
    from importlib.util import spec_from_file_location
    from pathlib import Path

    MAPPING: dict[str, str] = {} if IS_NAMESPACE else {"digits": "SRC/digits"}
    NAMESPACES: dict[str, list[str]] = {"digits": ["SRC/digits"]} if IS_NAMESPACE else {}

    class Finder:
        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            if fullname in MAPPING:
                return spec_from_file_location(fullname, Path(MAPPING[fullname]) / "__init__.py")
            if fullname in NAMESPACES:
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = NAMESPACES[fullname]
                return spec
            return None

    def install():
        sys.meta_path.append(Finder)
"""


def test_programs_that_the_function_starts_run_the_snapshot_too(code: Path) -> None:
    """Loader workers that are spawned, and ``python -m digits.…``."""
    printed = launch(
        code,
        """\
        import sys
        sys.path.insert(0, "src")
        from helpers import submit

        def start():
            import multiprocessing, subprocess, sys
            from digits.train import train
            code = "from digits.train import train; print(train())"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                return done.stdout.strip(), pool.apply(train)

        if __name__ == "__main__":
            from pathlib import Path
            job = submit(start, cluster="local", setup="until [ -e gate ]; do sleep 0.05; done")
            Path("src/digits/train.py").write_text("def train():\\n    return 'new'\\n")
            Path("gate").touch()
            print(job.result(60))
        """,
    )
    assert printed == "('old', 'old')\n"


def test_what_a_job_writes_beside_its_code_is_said(code: Path) -> None:
    """``Path(__file__).parents[2] / "figures"`` lies in the snapshot, where nobody looks."""
    write(
        code,
        {
            "src/digits/train.py": """\
from pathlib import Path

def train():
    here = Path(__file__).resolve().parents[2]
    (here / "results" / "found").touch()
    (here / "figures").mkdir()
""",
        },
    )
    printed = launch(
        code,
        """\
        import sys
        sys.path.insert(0, "src")
        from digits.train import train
        from helpers import submit
        if __name__ == "__main__":
            job = submit(train, cluster="local")
            job.result(60)
            print(job.logs())
        """,
    )
    assert "written into the snapshot of the code, not into the project: figures in" in printed
    assert (code / "results" / "found").exists()


def test_a_search_path_that_a_setup_line_adds_is_said(code: Path) -> None:
    """C44: modules come from the caller's path, whatever PYTHONPATH holds in the job."""
    write(code, {"zero/digits/__init__.py": "", "zero/digits/train.py": "def train():\n    return 'zero'\n"})
    printed = launch(
        code,
        """\
        import sys
        sys.path.insert(0, "src")
        from digits.train import train
        from helpers import submit
        if __name__ == "__main__":
            job = submit(train, cluster="local", setup="export PYTHONPATH=$PWD/zero")
            print(job.result(60))
            print(job.logs())
        """,
    )
    assert printed.startswith("old")
    assert f"PYTHONPATH names {code}/zero, which was not on the caller's path" in printed
