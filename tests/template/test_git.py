"""Git may be missing, old or unwilling: the project is there all the same."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template

ROOT = Path(__file__).resolve().parents[2]
BY_HAND = "git add --all && git commit --message 'Start from cookiecutter-slurm-torch'"


@pytest.fixture
def fresh_home(tmp_path: Path, home: Home) -> Home:
    """A home in which git knows nobody."""
    path = tmp_path / "home"
    path.mkdir()
    shutil.copy(home.path / "cookiecutter.yaml", path)
    return type(home)(path)


def git_lines(baked: Bake) -> list[str]:
    """Return what the bake said about git."""
    return [line for line in baked.output.splitlines() if line.startswith("git: ")]


def assert_whole(baked: Bake, default_bake: Bake) -> None:
    """All files are there, and nobody was shown a traceback."""
    assert baked.code == 0
    assert baked.files() == default_bake.files()
    assert "Traceback" not in baked.output


def test_a_bake_ends_in_one_commit_on_main_with_nothing_left_over(default_bake: Bake, home: Home) -> None:
    assert git_lines(default_bake) == []
    assert home.git(default_bake.project, "log", "--format=%an %s", "main") == (
        "Ada Lovelace Start from cookiecutter-slurm-torch"
    )
    assert home.git(default_bake.project, "status", "--porcelain") == ""


def test_a_bake_says_what_to_do_next(default_bake: Bake) -> None:
    assert "cd digits && make setup && make train" in default_bake.output


def test_the_checks_run_before_a_commit(default_bake: Bake) -> None:
    """Their tools are installed here, so the hook can be."""
    assert (default_bake.project / ".git" / "hooks" / "pre-commit").is_file()


def test_no_identity_is_made_up(bake: Baker, fresh_home: Home, default_bake: Bake) -> None:
    """Git would put together a name from the account and the host."""
    baked = bake(environment=fresh_home.environment())
    assert_whole(baked, default_bake)
    (line,) = git_lines(baked)
    assert "git does not know you" in line
    assert line.endswith(BY_HAND)
    assert (baked.project / ".git" / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert not list((baked.project / ".git" / "refs" / "heads").iterdir())


def test_an_identity_may_come_from_the_environment(bake: Baker, fresh_home: Home) -> None:
    person = {
        f"GIT_{role}_{part}": f"{part}@x".lower() for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
    }
    assert git_lines(bake(environment=fresh_home.environment(**person))) == []


def test_without_git_the_command_is_given(
    bake: Baker, home: Home, default_bake: Bake, template: Path, tmp_path: Path
) -> None:
    """The template's own commit cannot be asked for either, so this is a trial."""
    (tmp_path / "bin").mkdir()
    baked = bake(environment=home.environment(PATH=str(tmp_path / "bin")), template=template)
    assert_whole(baked, default_bake)
    (line,) = git_lines(baked)
    assert line == (f"git: no repository yet, since git is not installed. Once it is: git init && {BY_HAND}")
    assert "Trial: " in baked.output


def test_a_git_before_2_28_will_do(bake: Baker, home: Home, default_bake: Bake, tmp_path: Path) -> None:
    """`--initial-branch` is newer than the git of many clusters."""
    shim = tmp_path / "git"
    shim.write_text(
        '#!/bin/sh\nfor a; do case "$a" in -b|--initial-branch*) echo "unknown: $a" >&2; exit 129;; esac; done\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    shim.chmod(0o755)
    environment = home.environment()
    baked = bake(environment=environment | {"PATH": f"{tmp_path}:{environment['PATH']}"})
    assert_whole(baked, default_bake)
    assert git_lines(baked) == []
    assert home.git(baked.project, "branch", "--show-current") == "main"


def test_a_commit_that_cannot_be_signed_is_left_to_the_user(
    bake: Baker, fresh_home: Home, home: Home, default_bake: Bake
) -> None:
    settings = (home.path / ".gitconfig").read_text() + "[commit]\ngpgsign = true\n[gpg]\nprogram = /bin/false\n"
    (fresh_home.path / ".gitconfig").write_text(settings)
    baked = bake(environment=fresh_home.environment())
    assert_whole(baked, default_bake)
    (line,) = git_lines(baked)
    assert line.startswith("git: no first commit yet (")
    assert line.endswith(f"By hand: {BY_HAND}")


def test_a_failing_hook_of_the_users_own_is_left_to_the_user(
    bake: Baker, fresh_home: Home, home: Home, default_bake: Bake
) -> None:
    """A global template may bring a hook into each new repository."""
    hook = fresh_home.path / "template" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\necho no ticket number >&2\nexit 1\n")
    hook.chmod(0o755)
    settings = (home.path / ".gitconfig").read_text() + f"[init]\ntemplateDir = {hook.parents[1]}\n"
    (fresh_home.path / ".gitconfig").write_text(settings)
    baked = bake(environment=fresh_home.environment())
    assert_whole(baked, default_bake)
    assert git_lines(baked) == [f"git: no first commit yet (no ticket number). By hand: {BY_HAND}"]


def test_hooks_that_a_site_keeps_elsewhere_are_left_alone(
    bake: Baker, fresh_home: Home, home: Home, default_bake: Bake
) -> None:
    """With core.hooksPath, ours would be written into the folder that all repositories share."""
    hooks = fresh_home.path / "hooks"
    hooks.mkdir()
    settings = (home.path / ".gitconfig").read_text() + f"[core]\nhooksPath = {hooks}\n"
    (fresh_home.path / ".gitconfig").write_text(settings)
    baked = bake(environment=fresh_home.environment())
    assert_whole(baked, default_bake)
    assert git_lines(baked) == []
    assert list(hooks.iterdir()) == []
    assert home.git(baked.project, "log", "--format=%s") == "Start from cookiecutter-slurm-torch"


def test_setup_goes_on_where_a_site_keeps_its_hooks_elsewhere(
    bake: Baker, fresh_home: Home, home: Home, tmp_path: Path
) -> None:
    """pre-commit refuses to write there; what comes after it is done all the same, and what to do is said."""
    settings = (home.path / ".gitconfig").read_text() + f"[core]\nhooksPath = {fresh_home.path}\n"
    (fresh_home.path / ".gitconfig").write_text(settings)
    environment = fresh_home.environment(VIRTUAL_ENV=sys.prefix)
    project = bake(environment=environment).project
    (tmp_path / "python3").write_text(
        f'#!/bin/sh\ncase "$*" in *"pip install"*) exit 0;; esac\nexec {sys.executable} "$@"\n'
    )
    (tmp_path / "python3").chmod(0o755)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    done = subprocess.run(
        ["make", "setup"], cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Before a commit, by hand: pre-commit run" in done.stdout
    assert not (project / "data" / "raw").stat().st_mode & 0o222


def test_inside_another_repository_none_is_made(home: Home, template: Path, tmp_path: Path) -> None:
    """A repository in a repository is rarely meant."""
    home.git(tmp_path, "init", "--quiet")
    done = subprocess.run(
        [Path(sys.executable).with_name("cookiecutter"), "--no-input", template],
        cwd=tmp_path,
        env=home.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "git: no repository of its own, since the folder is inside one already." in done.stdout
    assert not (tmp_path / "digits" / ".git").exists()
    assert home.git(tmp_path, "status", "--porcelain") == "?? digits/"


def test_the_variables_of_another_repositorys_hook_are_not_obeyed(bake: Baker, home: Home, tmp_path: Path) -> None:
    """Git sets them while it runs a hook, and a bake may be part of one."""
    home.git(tmp_path, "init", "--quiet")
    baked = bake(environment=home.environment(GIT_DIR=str(tmp_path / ".git"), GIT_WORK_TREE=str(tmp_path)))
    assert (baked.project / ".git").is_dir()
    assert home.git(tmp_path, "log", "--all", "--format=%s") == ""


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The hook, imported as the plain Python that it is."""
    spec = importlib.util.spec_from_file_location("post_gen_project", ROOT / "hooks" / "post_gen_project.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requirement", "obstacle", "lines"),
    [
        ("git+https://example.org/t.git@1f", None, []),
        (
            "git+file://localhost/t@1f",
            None,
            [
                "helpers comes from a clone that only this machine can reach: git+file://localhost/t@1f",
                "  For others to install it, push the template, and name its URL in that line of pyproject.toml.",
            ],
        ),
        ("file:///t", None, ["Trial: helpers comes from files, not from a commit: file:///t"]),
        ("git+https://example.org/t.git@1f", "no.", ["git: no."]),
    ],
)
def test_the_last_lines_say_what_is_not_as_it_should_be(
    hook: ModuleType, requirement: str, obstacle: str | None, lines: list[str]
) -> None:
    answers = {"project_slug": "my-net", "package_name": "my_net"}
    assert hook.next_steps(answers, requirement, obstacle) == [
        "Made my-net/, with the package my_net. Next:",
        "  cd my-net && make setup && make train    (README.md tells the rest)",
        *lines,
    ]


def test_under_cruft_no_repository_is_made(hook: ModuleType) -> None:
    """It writes .cruft.json after the hook, and an update compares folders, in which a .git is in the way."""
    assert hook.why_no_repository(under_cruft=True).endswith(f"By hand: git init && {BY_HAND}")
