"""A project gets `helpers` by one requirement, pinned to the template's own commit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest
from cookiecutter.main import cookiecutter
from packaging.requirements import Requirement

import template_extension

if TYPE_CHECKING:
    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template

ORIGIN = "https://token@example.org/lab/template.git"


def requirement(project: Path) -> str:
    """Return the project's requirement for helpers."""
    dependencies = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (found,) = (text for text in dependencies if Requirement(text).name == "slurm-torch-helpers")
    return found


@pytest.fixture
def clone(template: Path, tmp_path: Path, home: Home) -> Path:
    """A clone of the template, in a folder whose name a URL cannot hold as it is."""
    folder = tmp_path / "a b@ü"
    home.git(tmp_path, "clone", "--quiet", str(template), str(folder))
    return folder


def commit_of(folder: Path, home: Home) -> str:
    """Return the commit that is checked out in ``folder``."""
    return home.git(folder, "rev-parse", "HEAD")


def local(folder: Path, commit: str) -> str:
    """Return the requirement on a commit of a local clone."""
    return f"slurm-torch-helpers @ git+file://localhost{quote(str(folder))}@{commit}"


def test_a_pushed_commit_comes_from_the_remote_without_its_token(clone: Path, home: Home, bake: Baker) -> None:
    """A token in the template's URL must not end up in each project."""
    home.git(clone, "remote", "set-url", "origin", ORIGIN)
    expected = f"slurm-torch-helpers @ git+https://example.org/lab/template.git@{commit_of(clone, home)}"
    baked = bake(template=clone)
    assert requirement(baked.project) == expected
    assert "helpers comes from" not in baked.output


def test_a_commit_that_is_not_pushed_comes_from_the_clone(clone: Path, home: Home, bake: Baker) -> None:
    """The remote does not have it, so a job elsewhere could not install it."""
    home.git(clone, "remote", "set-url", "origin", ORIGIN)
    home.git(clone, "commit", "--quiet", "--allow-empty", "--message", "Mine")
    baked = bake(template=clone)
    assert requirement(baked.project) == local(clone, commit_of(clone, home))
    assert "helpers comes from a clone that only this machine can reach" in baked.output


def test_a_clone_of_a_clone_leads_to_where_the_commit_came_from(
    clone: Path, template: Path, home: Home, bake: Baker
) -> None:
    """The clone may be a temporary one."""
    assert requirement(bake(template=clone).project) == local(template, commit_of(clone, home))


def test_a_repository_without_a_remote_is_its_own_source(template: Path, home: Home, bake: Baker) -> None:
    assert requirement(bake(template=template).project) == local(template, commit_of(template, home))


@pytest.mark.parametrize("name", ["new.txt", "cookiecutter.json"])
def test_changed_files_are_used_as_they_are_and_called_a_trial(clone: Path, bake: Baker, name: str) -> None:
    """No commit has them, so there is nothing to pin."""
    with (clone / name).open("a") as file:
        file.write("\n")
    baked = bake(template=clone)
    assert requirement(baked.project) == f"slurm-torch-helpers @ file://{quote(str(clone))}"
    assert "Trial: helpers comes from files, not from a commit" in baked.output


def test_a_folder_that_pip_cannot_find_by_a_git_url_is_a_trial(clone: Path, home: Home, bake: Baker) -> None:
    """A requirement that cannot be installed is worse than one that is not pinned."""
    home.git(clone, "remote", "remove", "origin")
    folder = clone.rename(clone.with_name("C#"))
    assert requirement(bake(template=folder).project) == f"slurm-torch-helpers @ file://{quote(str(folder))}"


def test_a_folder_without_git_is_a_trial(clone: Path, bake: Baker) -> None:
    shutil.rmtree(clone / ".git")
    assert requirement(bake(template=clone).project) == f"slurm-torch-helpers @ file://{quote(str(clone))}"


def test_a_folder_inside_another_repository_is_a_trial(clone: Path, home: Home, bake: Baker) -> None:
    """The commit of a home folder under git says nothing about the template unpacked in it."""
    shutil.rmtree(clone / ".git")
    home.git(clone.parent, "init", "--quiet")
    home.git(clone.parent, "add", "--all")
    home.git(clone.parent, "commit", "--quiet", "--message", "All of it")
    assert requirement(bake(template=clone).project) == f"slurm-torch-helpers @ file://{quote(str(clone))}"


def test_two_templates_in_one_process_are_told_apart(
    template: Path, clone: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python loads the extension of the first one only."""
    home.git(clone, "remote", "remove", "origin")
    home.git(clone, "commit", "--quiet", "--allow-empty", "--message", "Mine")
    for name, value in home.environment().items():
        monkeypatch.setenv(name, value)
    projects = [
        Path(cookiecutter(str(folder), no_input=True, output_dir=str(tmp_path), extra_context={"project_name": name}))
        for name, folder in (("first", template), ("second", clone))
    ]
    assert [requirement(project) for project in projects] == [
        local(folder, commit_of(folder, home)) for folder in (template, clone)
    ]


def test_cruft_gives_the_same_project(template: Path, bake: Baker, home: Home, tmp_path: Path) -> None:
    """It renders from a temporary clone, and tells the template less than cookiecutter does."""
    done = subprocess.run(
        [Path(sys.executable).with_name("cruft"), "create", "--no-input", template],
        cwd=tmp_path,
        env=home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    project, baked = tmp_path / "digits", bake()
    for path in baked.files():  # the stamp, too
        assert (project / path).read_bytes() == (baked.project / path).read_bytes(), path
    assert "git: no repository yet, since cruft adds a file after this." in done.stdout
    assert not (project / ".git").exists()
    assert json.loads((project / ".cruft.json").read_text())["commit"] == commit_of(template, home)


def test_a_zip_of_the_repository_gives_the_same_project(
    template: Path, bake: Baker, default_bake: Bake, home: Home, tmp_path: Path
) -> None:
    """But for the files that say where it came from: a zip has no commit."""
    home.git(template, "archive", "--prefix=template/", f"--output={tmp_path}/template.zip", "HEAD")
    unpacked = bake(template=tmp_path / "template.zip")
    assert unpacked.code == 0, unpacked.output
    assert unpacked.files() == default_bake.files()
    other = {
        path
        for path in unpacked.files()
        if (unpacked.project / path).read_bytes() != (default_bake.project / path).read_bytes()
    }
    assert other == {path for path in other if "slurm-torch-helpers @" in (unpacked.project / path).read_text()} | {
        ".template.json"
    }
    folder = Path(unquote(requirement(unpacked.project).partition("file://")[2]))
    assert (folder / "cookiecutter.json").is_file()  # where cookiecutter had unpacked it, nothing is left
    assert home.path in folder.parents


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ("https://example.org/lab/t.git", "https://example.org/lab/t.git"),
        ("https://me:secret@example.org:8443/lab/t", "https://example.org:8443/lab/t"),
        ("ssh://git@example.org:2222/lab/t.git", "ssh://git@example.org:2222/lab/t.git"),
        ("git@example.org:lab/t.git", "ssh://git@example.org/lab/t.git"),
        ("example.org:/srv/t.git", "ssh://example.org/srv/t.git"),
    ],
)
def test_a_remote_is_written_as_pip_takes_it(origin: str, url: str) -> None:
    assert template_extension.local_path(origin) is None
    assert template_extension.remote_url(origin) == url
    assert Requirement(f"x @ git+{url}@1f").url == f"git+{url}@1f"


@pytest.mark.parametrize(
    ("origin", "path"), [("/srv/t.git", "/srv/t.git"), ("../t", "../t"), ("file:///srv/a%20b", "/srv/a b")]
)
def test_a_remote_on_this_machine_is_a_folder(origin: str, path: str) -> None:
    assert template_extension.local_path(origin) == Path(path)
