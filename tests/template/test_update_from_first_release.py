"""Who made a project with the first release gets to the template as it is now, and loses nothing of his own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.project.template.repository import answer
from helpers.project.template.stamp import drift_of, read_stamp
from tests.template.conftest import ROOT, TEMPLATE_FILES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.template.conftest import Baker, Home

pytestmark = pytest.mark.template

PACKAGE = "{{cookiecutter.project_slug}}"
STAMP_FILE = f"{PACKAGE}/.template.json"


def first_release(repository: Path) -> str | None:
    """Return the oldest release: a tag; before there is one, the first commit with a stamp; None without history."""
    tags = answer(repository, "tag", "--list", "v*", "--sort=version:refname", "--merged", "HEAD")
    if tags:
        return tags.splitlines()[0]
    if answer(repository, "rev-parse", "--show-prefix") != "":
        return None
    if answer(repository, "rev-parse", "--is-shallow-repository") == "true":
        return None
    added = answer(repository, "log", "--diff-filter=A", "--format=%H", "--", STAMP_FILE)
    return added.splitlines()[-1] if added else None


def lay_out(folder: Path, commit: str) -> None:
    """Write the template as it was."""
    there = [name for name in answer(ROOT, "ls-tree", "--name-only", commit).splitlines() if name in TEMPLATE_FILES]
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, *there], check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)


def make_older(folder: Path) -> None:
    """Take from the template as it is now what an older one may have lacked, and give it what is gone since."""
    project = folder / PACKAGE
    (project / ".vscode" / "tasks.json").unlink()
    (project / "gone.cfg").write_text("{{ cookiecutter.package_name }}\n")
    for name in (".gitignore", "Makefile", "pyproject.toml"):
        file = project / name
        head, _, tail = file.read_text().rpartition("\n\n")
        file.write_text(f"{head}\n\n# older\n{tail}")


@pytest.fixture(scope="module", params=["the first release", "the template of today, made older"])
def releases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, template: Path, home: Home
) -> Path:
    """A repository with two commits: an older template, checked out, and on the branch ``now`` that of today.

    Where there is no first release (a copy without history, such as a zip), or the template of today still is the
    first one, both parameters make one.
    """
    folder = tmp_path_factory.mktemp("releases")
    begun = first_release(ROOT) if request.param == "the first release" else None
    if begun and answer(ROOT, "diff", "--name-only", begun, "--", *TEMPLATE_FILES):
        lay_out(folder, begun)
    else:
        copy(template, folder)
        make_older(folder)
    home.git(folder, "init", "--quiet")
    home.git(folder, "add", "--all")
    home.git(folder, "commit", "--quiet", "--message", "The first release")
    home.git(folder, "checkout", "--quiet", "-b", "now")
    for entry in folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    copy(template, folder)
    home.git(folder, "add", "--all")
    home.git(folder, "commit", "--quiet", "--message", "Today")
    home.git(folder, "checkout", "--quiet", "--detach", "now~")
    return folder


def copy(template: Path, folder: Path) -> None:
    shutil.copytree(template, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"), dirs_exist_ok=True)


def helpers(project: Path, home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "helpers.cli", *words]
    return subprocess.run(command, cwd=project, env=home.environment(), capture_output=True, text=True, check=False)


def commit(project: Path, home: Home) -> None:
    home.git(project, "add", "--all")
    home.git(project, "commit", "--quiet", "--no-verify", "--allow-empty", "--message", "Mine")


def test_a_project_of_the_first_release_gets_to_today(releases: Path, bake: Baker, home: Home) -> None:
    """Edits, a deleted file and a dependency beside the library's own line, in one update; a second changes nothing."""
    baked = bake(template=releases)
    project = baked.project
    (project / "Makefile").write_text(f"# mine\n{(project / 'Makefile').read_text()}")
    (project / "README.md").write_text("mine\n")
    (project / ".gitlab-ci.yml").unlink()
    pyproject = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(pyproject.replace('    "slurm-', '    "scipy>=1.11",\n    "slurm-'))
    assert helpers(project, home, "env", "sync").returncode == 0
    commit(project, home)
    done = helpers(project, home, "template", "update", "--to", "now")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    newest = home.git(releases, "rev-parse", "now")
    assert read_stamp(project).commit == newest
    drift = drift_of(project, read_stamp(project))
    assert (drift.changed, drift.deleted) == (("Makefile",), (".gitlab-ci.yml",))
    assert (project / "Makefile").read_text().startswith("# mine\n")
    assert (project / "README.md").read_text() == "mine\n"
    assert '"scipy>=1.11",\n    "slurm-torch-helpers @ ' in (project / "pyproject.toml").read_text()
    assert f"@{newest}" in (project / "environment.yml").read_text()
    for check in (("env", "sync", "--check"), ("data", "verify")):
        assert helpers(project, home, *check).returncode == 0
    commit(project, home)
    again = helpers(project, home, "template", "update", "--to", "now")
    assert (again.returncode, again.stdout.startswith("up to date")) == (0, True)
    assert home.git(project, "status", "--porcelain") == ""


def test_a_shallow_clone_does_not_know_the_first_release(tmp_path: Path, home: Home) -> None:
    """Its oldest commit seems to add every file; of a tag it knows what that is."""
    folder = tmp_path / "whole"
    (folder / PACKAGE).mkdir(parents=True)
    home.git(folder, "init", "--quiet")
    home.git(folder, "commit", "--quiet", "--allow-empty", "--message", "Before")
    (folder / STAMP_FILE).write_text("{}")
    commit(folder, home)
    begun = home.git(folder, "rev-parse", "HEAD")
    (folder / STAMP_FILE).write_text("{ }")
    commit(folder, home)
    assert first_release(folder) == begun
    home.git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{folder}", "shallow")
    assert first_release(tmp_path / "shallow") is None
    home.git(folder, "tag", "v0.10.0")
    home.git(folder, "tag", "v0.9.0", "HEAD~")
    assert first_release(folder) == "v0.9.0"
