"""A job runs the source as it was submitted, wherever its code comes from."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.unit.submission.source.projects import write

ROOT = Path(__file__).parents[4]


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
    import time
    {path}
    from pathlib import Path
    from digits.train import train
    from helpers import submit
    if __name__ == "__main__":
        gate = "until [ -e gate ]; do sleep 0.05; done"
        job = submit(train, cluster="local", setup=gate)
        Path("src/digits/train.py").write_text("def train():\\n    return 'new'\\n")
        Path("gate").touch()
        print(job.result(240))
        while not (job.folder / "provenance.json").exists():
            time.sleep(0.05)  # it is written beside the run
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


@pytest.mark.parametrize("how", ["pth", "finder", "namespace finder"])
def test_a_package_in_editable_mode_comes_from_the_snapshot(code: Path, how: str) -> None:
    """How a generated project is installed: no path of the script leads to it."""
    python = environment_with_editable(code, how)
    if how == "namespace finder":
        (code / "src/digits/__init__.py").unlink()
    assert launch(code, EDITS.format(path=""), python=str(python)).startswith("old")


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
            print(job.result(240))
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
            job.result(240)
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
            print(job.result(240))
            print(job.logs())
        """,
    )
    assert printed.startswith("old")
    assert f"PYTHONPATH names {code}/zero, which was not on the caller's path" in printed


def test_what_was_submitted_with_code_that_is_gone_is_not_run_again(code: Path) -> None:
    """``rerun`` promises the same code, and ran what the folder has now."""
    printed = launch(
        code,
        """\
        import shutil
        import sys
        sys.path.insert(0, "src")
        from digits.train import train
        from helpers import InvalidRequest, call, submit, submit_array

        jobs = [submit(train, cluster="local"), submit_array(train, [call()], cluster="local")[0]]
        print([job.result(240) for job in jobs])
        shutil.rmtree("runs/.snapshots")
        for job in jobs:
            try:
                print(job.rerun())
            except InvalidRequest as error:
                print(error.message)
        """,
    )
    lines = printed.splitlines()
    assert lines[0] == "['old', 'old']"
    assert [line.startswith("The code that train was submitted with is gone: ") for line in lines[1:]] == [True, True]
