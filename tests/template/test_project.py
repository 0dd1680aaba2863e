"""A fresh project passes its own checks and tests, whatever its name."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES = 40
MOST_ENTRIES = 15  # that `ls` shows at the project's root; dotfiles stand where their tools look for them

QUESTIONS = json.loads((ROOT / "cookiecutter.json").read_text())
CHOICES = {
    name: value for name, value in QUESTIONS.items() if isinstance(value, list | bool) and not name.startswith("_")
}
VALUES = {name: value if isinstance(value, list) else [True, False] for name, value in CHOICES.items()}
# Every value of every question, with names of three and of forty letters: a name moves imports and line ends.
VARIANTS = [
    {"project_name": name, **dict(zip(VALUES, values, strict=True))}
    for name in ("abc", "z" * 40)
    for values in itertools.product(*VALUES.values())
]

FILES = {
    ".env.example",
    ".github/workflows/ci.yml",
    ".gitignore",
    ".gitlab-ci.yml",
    ".pre-commit-config.yaml",
    ".template.json",
    ".vscode/extensions.json",
    ".vscode/launch.json",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    "LICENSE",
    "Makefile",
    "README.md",
    "Snakefile",
    "container.def",
    "data/README.md",
    "data/interim/.gitkeep",
    "data/processed/.gitkeep",
    "data/raw.manifest",
    "data/raw/.gitkeep",
    "data/raw/optdigits.csv.gz",
    "docs/experiments.md",
    "environment.yml",
    "notebooks/look_at_the_data.ipynb",
    "pyproject.toml",
    "src/digits/__init__.py",
    "src/digits/__main__.py",
    "src/digits/cli.py",
    "src/digits/config.py",
    "src/digits/data.py",
    "src/digits/evaluate.py",
    "src/digits/model.py",
    "src/digits/report.py",
    "src/digits/train.py",
    "tests/test_data.py",
    "tests/test_model.py",
    "tests/test_train.py",
}


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: "-".join(map(str, variant.values()))[:20])
def variant(request: pytest.FixtureRequest, bake: Baker) -> Bake:
    """One project for each set of answers."""
    return bake(**request.param)


@pytest.fixture
def fresh(bake: Baker) -> Bake:
    """A project to change."""
    return bake()


def run(command: list[str], baked: Bake, home: Home, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the project, with the tools of the Python that runs the tests."""
    return subprocess.run(
        command,
        cwd=baked.project,
        env=home.environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_every_question_has_a_label() -> None:
    asked = [name for name in QUESTIONS if not name.startswith("_")]
    assert list(QUESTIONS["__prompts__"]) == asked


def test_the_project_has_these_files(default_bake: Bake) -> None:
    assert default_bake.files() == FILES


def test_the_project_is_small_enough_to_know(default_bake: Bake) -> None:
    assert len(default_bake.files()) <= MOST_FILES
    assert len({path.split("/")[0] for path in default_bake.files() if path[0] != "."}) <= MOST_ENTRIES


def test_every_file_is_under_git(default_bake: Bake, home: Home) -> None:
    """An ignore rule for `data` easily hides `src/…/data.py`, and empty folders are lost in a clone."""
    assert set(home.git(default_bake.project, "ls-files").splitlines()) == FILES


def test_every_file_parses_and_no_placeholder_is_left(variant: Bake) -> None:
    for name in variant.files() - {"data/raw/optdigits.csv.gz"}:
        text = (variant.project / name).read_text(encoding="utf-8")
        text = re.sub(r"\$\{\{ [^{}]* \}\}", "", text)  # GitHub's own
        assert [mark for mark in ("{{", "{%", "cookiecutter.") if mark in text] == [], name
        assert text == "" or text.endswith("\n"), name
        assert "\r" not in text, name
        match Path(name).suffix:
            case ".py":
                compile(text, name, "exec")
            case ".toml":
                tomllib.loads(text)
            case ".yaml" | ".yml":
                yaml.safe_load(text)
            case ".json" | ".ipynb":
                json.loads(text)


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."]])
def test_the_project_passes_its_own_style(variant: Bake, home: Home, command: list[str]) -> None:
    done = run(command, variant, home)
    assert done.returncode == 0, done.stdout


def test_the_checks_before_a_commit_pass_and_change_nothing(variant: Bake, home: Home) -> None:
    """The first commit of a new project must not be blocked by what the template wrote."""
    done = run(["pre-commit", "run", "--all-files"], variant, home)
    assert done.returncode == 0, done.stdout
    assert home.git(variant.project, "status", "--porcelain") == ""


@pytest.mark.parametrize("target", ["help", "check"])
def test_make_works_at_once(default_bake: Bake, home: Home, target: str) -> None:
    done = run(["make", target], default_bake, home, VIRTUAL_ENV=sys.prefix)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("target", ["train", "test"])
def test_what_comes_before_setup_says_so(default_bake: Bake, home: Home, target: str) -> None:
    """Python's own words would be that it knows no module of the project's name, or not torch."""
    done = run(["make", target], default_bake, home)
    assert done.returncode == 2
    assert "The project is not installed yet: make setup\n" in done.stdout


def test_setup_installs_the_build_and_the_versions_that_are_asked_for(fresh: Bake, home: Home) -> None:
    """One setting for the CUDA build; the lock; another torch, first. Under conda pip must replace nothing."""
    with (fresh.project / "pyproject.toml").open("a") as file:
        file.write('[tool.helpers.environment]\ncuda = "cu126"\n')
    (fresh.project / "requirements.lock").touch()
    words, places = ["make", "--dry-run", "setup", "TORCH=torch==2.9.1"], ("", "base", "digits")
    pip, base, conda = (run(words, fresh, home, CONDA_DEFAULT_ENV=name, CONDA_PREFIX=name).stdout for name in places)
    assert pip.index("install torch==2.9.1\n") < pip.index("--editable")
    assert "/whl/cu126 --constraint requirements.lock\n" in pip
    assert base == pip, "conda's base is active in every shell of many; .venv is pip's all the same"
    assert "/whl/cu126" in conda
    assert "--constraint" not in conda


def test_the_projects_own_tests_pass(fresh: Bake, home: Home) -> None:
    """They train for some seconds, so they need no GPU, no cluster and no network."""
    alone = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}  # threads that wait for each other cost minutes
    done = run([sys.executable, "-m", "pytest", "-q"], fresh, home, **alone)
    assert done.returncode == 0, done.stdout
    assert home.git(fresh.project, "status", "--porcelain") == ""


def test_help_answers_without_torch(default_bake: Bake, home: Home) -> None:
    """`--help` that takes seconds is not asked for."""
    path = os.pathsep.join([str(default_bake.project / "src"), str(ROOT)])
    code = (
        "import sys; from digits.cli import app; app(['train', '--help'], standalone_mode=False); "
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    done = run([sys.executable, "-c", code], default_bake, home, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout
    assert "--epochs" in done.stdout


@pytest.mark.parametrize("where", ["--here", "--cluster=local"])
def test_a_training_that_fails_is_shown_once_and_without_our_machinery(fresh: Bake, home: Home, where: str) -> None:
    """The user's own line and the error, not two tracebacks that end in the command line's frames."""
    path = os.pathsep.join([str(fresh.project / "src"), str(ROOT)])
    command = [sys.executable, "-m", "digits", "train", where, "--lr", "-1"]
    done = run(command, fresh, home, PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stdout.count("Traceback (most recent call last)") == 1
    assert 'train.py", line ' in done.stdout
    assert "raised ValueError: Invalid learning rate: -1.0" in done.stdout
    assert [name for name in ("typer", "click", "helpers/cli", "helpers/runtime") if f"{name}/" in done.stdout] == []


def test_ctrl_c_while_training_says_that_the_job_goes_on(fresh: Bake, home: Home) -> None:
    """Who closes the log has not stopped the training, and must know how to."""
    path = os.pathsep.join([str(fresh.project / "src"), str(ROOT)])
    training = subprocess.Popen(
        [sys.executable, "-m", "digits", "train", "--cluster=local", "--epochs", "1000"],
        cwd=fresh.project,
        env=home.environment(PYTHONPATH=path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert training.stderr is not None
    said = next(line for line in training.stderr if "attempt 0 runs on" in line)
    training.send_signal(signal.SIGINT)
    said += training.stderr.read()
    assert training.wait(timeout=120) == 130
    training.stderr.close()
    (job,) = re.findall(r"job (local-\d+) goes on", said)
    assert "Traceback" not in said
    cancel = [sys.executable, "-m", "helpers.cli", "cancel", job]
    assert run(cancel, fresh, home, PYTHONPATH=path).stdout == f"{job} is asked to end\n"


def test_made_data_and_runs_stay_out_of_git(fresh: Bake, home: Home) -> None:
    for name in ("data/interim/a.npy", "data/processed/b/c.npy", "runs/train/x/final.json", ".env"):
        path = fresh.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert home.git(fresh.project, "status", "--porcelain") == ""


def test_raw_data_that_differs_is_named(fresh: Bake, home: Home) -> None:
    """Results must lead back to files that nobody has touched."""
    raw = fresh.project / "data" / "raw"
    verify = ["helpers", "data", "verify"]
    (raw / "new.csv").write_text("1\n")
    assert "undeclared: data/raw/new.csv" in run(verify, fresh, home).stdout
    assert run(["helpers", "data", "add", "data/raw/new.csv"], fresh, home).returncode == 0
    assert run(verify, fresh, home).returncode == 0
    raw.chmod(0o755)
    (raw / "new.csv").chmod(0o644)
    (raw / "new.csv").write_text("2\n")
    (raw / "optdigits.csv.gz").unlink()
    done = run(verify, fresh, home)
    assert done.returncode == 1
    assert "changed: data/raw/new.csv" in done.stdout
    assert "deleted: data/raw/optdigits.csv.gz" in done.stdout


def test_a_commit_that_deletes_raw_data_is_stopped(fresh: Bake, home: Home) -> None:
    """A hook that is given the changed files is given none here, and would pass."""
    home.git(fresh.project, "rm", "--quiet", "data/raw/optdigits.csv.gz")
    done = run(["git", "commit", "--message", "Tidy up"], fresh, home)
    assert done.returncode == 1
    assert "deleted: data/raw/optdigits.csv.gz" in done.stdout
