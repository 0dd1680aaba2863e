"""A job runs in the environment it was submitted from, or in one that a setting names."""

import json
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from helpers import InvalidRequest, SetupFailed, submit, submit_command
from helpers.submission.surroundings import conda_environments, module_lines
from tests.unit.submission import functions

LIBRARY = Path(sys.modules["helpers"].__file__ or "").parents[1]


def make_environment(folder: Path, version: str) -> Path:
    """Make a virtual environment that has this library, and a package of its own."""
    venv.create(folder, with_pip=False, symlinks=True)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / name / "site-packages"
    (packages / "demo_pkg.py").write_text(f"version = {version!r}\n")
    (packages / "others.pth").write_text(f"{LIBRARY}\n{sysconfig.get_path('purelib')}\n")
    return folder


ASKS = """
import os
import sys


def which():
    import demo_pkg

    return {"python": sys.executable, "version": demo_pkg.version, "prefix": os.environ.get("VIRTUAL_ENV")}
"""


@pytest.fixture
def environment(project: Path) -> Path:
    """An environment that is not this process's own, beside a project."""
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    return make_environment(project.parent / f"{project.name} env", "2")


def test_a_named_environment_is_the_jobs(environment: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C44: its Python, its packages, its programs; in the project's own settings."""
    (project / "pyproject.toml").write_text(f"[tool.helpers.defaults]\nenvironment = {json.dumps(str(environment))}\n")
    (project / "asks.py").write_text(ASKS)
    monkeypatch.syspath_prepend(str(project))
    import asks  # type: ignore[import-not-found]  # written above

    found = submit(asks.which, cluster="local").result(240)
    assert found == {"python": str(environment / "bin" / "python"), "version": "2", "prefix": str(environment)}


def test_a_program_of_a_named_environment_is_found(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were active."""
    monkeypatch.setenv("HELPERS_ENVIRONMENT", str(environment))
    code = "import demo_pkg, sys; sys.exit(int(demo_pkg.version))"
    error = submit_command(["python", "-c", code], cluster="local").exception(240)
    assert error.facts.exit_code == 2  # type: ignore[union-attr]  # a JobExited


def test_an_environment_that_is_none_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is queued."""
    monkeypatch.setenv("HELPERS_ENVIRONMENT", str(project))
    with pytest.raises(InvalidRequest, match="has no bin/python"):
        submit(functions.add, 1, cluster="local")


def test_an_environment_without_this_library_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line that puts it there."""
    bare = project / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    monkeypatch.setenv("HELPERS_ENVIRONMENT", str(bare))
    with pytest.raises(InvalidRequest, match="has not got this library") as raised:
        submit(functions.add, 1, cluster="local")
    assert "-m pip install" in raised.value.hint


def test_conda_environments_are_known_by_their_names(tmp_path: Path) -> None:
    """By what conda writes down; it is not asked."""
    for folder in ("root/envs/one", "elsewhere/two", "gone-bad"):
        (tmp_path / folder / ("conda-meta" if folder != "gone-bad" else "")).mkdir(parents=True)
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda" / "environments.txt").write_text(f"{tmp_path}/elsewhere/two\n{tmp_path}/gone-bad\n")
    found = conda_environments({"HOME": str(tmp_path), "CONDA_EXE": f"{tmp_path}/root/bin/conda"})
    assert found == {"one": tmp_path / "root/envs/one", "two": tmp_path / "elsewhere/two"}


def test_a_conda_environment_that_is_not_known_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those that are."""
    (project / "envs" / "torch" / "conda-meta").mkdir(parents=True)
    monkeypatch.setenv("CONDA_ENVS_PATH", str(project / "envs"))
    monkeypatch.setenv("HELPERS_ENVIRONMENT", "toch")
    with pytest.raises(InvalidRequest, match=r"no conda environment 'toch'; known: .*torch"):
        submit(functions.add, 1, cluster="local")


def test_a_conda_environment_is_entered_with_its_own_scripts(
    environment: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They set what its compilers and libraries need."""
    (environment / "conda-meta").mkdir()
    scripts = environment / "etc" / "conda" / "activate.d"
    scripts.mkdir(parents=True)
    (scripts / "own.sh").write_text("export OWN_SETTING=$UNSET_VARIABLE-set\n")
    monkeypatch.setenv("HELPERS_ENVIRONMENT", str(environment))
    command = ["sh", "-c", f'test "$OWN_SETTING" = -set && test "$CONDA_PREFIX" = "{environment}"']
    assert submit_command(command, cluster="local").result(240) == 0


def test_modules_are_loaded_before_the_setup_and_a_failure_is_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C45: ``module`` may not exist on the node."""
    assert module_lines(["cuda/12.4", "it's"]) == ["module load cuda/12.4", "module load 'it'\"'\"'s'"]
    (project / "pyproject.toml").write_text('[tool.helpers.defaults]\nmodules = ["cuda/12.4"]\n')
    error = submit_command(["true"], cluster="local").exception(240)
    assert isinstance(error, SetupFailed)
    assert "module load cuda/12.4" in str(error)
