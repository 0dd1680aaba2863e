"""A project keeps the tie to its template: stamp, drift, update, adoption, and the lab's own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from helpers.cli.main import app
from helpers.errors import InvalidRequest
from helpers.project.template.adoption import adopt
from helpers.project.template.checkout import Checkouts
from helpers.project.template.stamp import STAMP, drift_of, read_stamp
from helpers.project.template.update import Update, update
from tests.template.test_another_owner import give_away

if TYPE_CHECKING:
    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template

PACKAGE = "{{cookiecutter.project_slug}}"


@dataclass(frozen=True)
class Release:
    """A template that a test may change."""

    template: Path
    home: Home

    def __call__(self, **files: str | None) -> None:
        """Commit new contents of the project's files; None removes one, a line OLD stands for what there is."""
        write(self.template / PACKAGE, files)
        self.home.git(self.template, "add", "--all")
        self.home.git(self.template, "commit", "--quiet", "--message", "A release")


@pytest.fixture
def room(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> Checkouts:
    """Room for clones, in a process that lives in a home of its own."""
    for name, value in home.environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "room"
    folder.mkdir()
    return Checkouts(folder)


@pytest.fixture
def release(released: Path, home: Home) -> Release:
    """Commits changes of the template's files in the project."""
    return Release(released, home)


NAMES = {
    "makefile": "Makefile",
    "readme": "README.md",
    "extra": "extra.cfg",
    "hooks": ".pre-commit-config.yaml",
    "ignore": ".gitignore",
    "settings": ".vscode/settings.json",
    "extensions": ".vscode/extensions.json",
    "train": "src/{{cookiecutter.package_name}}/train.py",
}


def write(folder: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / NAMES.get(name, name)
        path = path if path.parent.exists() else folder / "src" / "digits" / path.name
        if text is None:
            path.unlink()
        else:
            path.write_text(text.replace("OLD\n", path.read_text() if path.exists() else ""))


def save(baked: Bake, home: Home, **files: str | None) -> None:
    """Edit and commit files of the project, as its user does."""
    write(baked.project, files)
    home.git(baked.project, "add", "--all")
    home.git(baked.project, "commit", "--quiet", "--no-verify", "--message", "Mine")


def news(done: Update, project: Path) -> dict[str, str]:
    """Return what became of files; those that name the commit of `helpers` change with each release."""
    pinned = {path for path in (change.path for change in done.changes) if names_helpers(project / path)}
    return {change.path: str(change.action) for change in done.changes if change.path not in pinned}


def names_helpers(file: Path) -> bool:
    return file.exists() and "slurm-torch-helpers @" in file.read_text()


def test_a_fresh_project_knows_its_template(default_bake: Bake, template: Path, home: Home) -> None:
    """Where it came from, with which answers, and what each file of the template was."""
    stamp = read_stamp(default_bake.project)
    assert stamp.template == str(template)
    assert stamp.commit == home.git(template, "rev-parse", "HEAD")
    assert stamp.answers["project_name"] == "Digits"
    assert {"Makefile", ".gitignore", "pyproject.toml"} <= stamp.hashes.keys()
    assert [path for path in stamp.hashes if path.startswith(("src/", "tests/", "data/raw", "docs/"))] == []
    assert not drift_of(default_bake.project, stamp)


def test_a_stamp_serves_cruft(default_bake: Bake, home: Home, tmp_path: Path) -> None:
    """Its keys are cruft's, so that a lab that has cruft in its CI can keep it."""
    project = tmp_path / "digits"
    home.git(tmp_path, "clone", "--quiet", str(default_bake.project), str(project))
    (project / ".cruft.json").write_text((project / STAMP).read_text())
    done = subprocess.run(
        [Path(sys.executable).with_name("cruft"), "check"],
        cwd=project,
        env=home.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_drift_is_seen_without_the_template(released: Path, bake: Baker) -> None:
    """On a cluster without a network, and when the template has long moved."""
    project = bake(template=released).project
    with (project / "Makefile").open("a") as file:
        file.write("# mine\n")
    with (project / "pyproject.toml").open("a") as file:
        file.write("# mine\n")
    (project / ".gitlab-ci.yml").unlink()
    (project / "README.md").unlink()
    released.rename(released.with_name("gone"))
    drift = drift_of(project, read_stamp(project))
    assert drift.changed == ("Makefile",)
    assert drift.deleted == (".gitlab-ci.yml",)
    assert drift.shared == ("pyproject.toml",)


def test_an_update_brings_in_what_is_new_and_leaves_what_is_mine(
    released: Path, release: Release, bake: Baker, home: Home, room: Checkouts
) -> None:
    """Every way in which a file can differ, in one update; and a second one changes nothing."""
    release(extra="old\n")
    baked = bake(template=released)
    save(baked, home, makefile="OLD\n# mine\n", readme="mine\n", extensions=None, train="OLD\n# mine\n", extra="mine\n")
    release(
        makefile="# theirs\nOLD\n", readme="theirs\n", extensions="[]\n", train="OLD\n# theirs\n", extra=None,
        settings="{}\n", hooks=None, ignore="OLD\n/new/\n",
    )  # fmt: skip
    (released / PACKAGE / "new.cfg").write_text("{{ cookiecutter.package_name }}\n")
    release()
    done = update(baked.project, room)
    assert news(done, baked.project) == {
        ".gitignore": "updated",
        ".pre-commit-config.yaml": "removed",
        ".vscode/extensions.json": "stays deleted",
        ".vscode/settings.json": "updated",
        "Makefile": "merged",
        "extra.cfg": "kept",
        "new.cfg": "added",
    }
    makefile = (baked.project / "Makefile").read_text()
    assert makefile.startswith("# theirs\n")
    assert makefile.endswith("# mine\n")
    assert (baked.project / "new.cfg").read_text() == "digits\n"
    assert (baked.project / "README.md").read_text() == "mine\n"
    assert (baked.project / "src/digits/train.py").read_text().endswith("\n# mine\n")
    assert done.new.commit == home.git(released, "rev-parse", "HEAD")
    assert read_stamp(baked.project) == done.new
    save(baked, home)
    assert update(baked.project, Checkouts(room.folder.parent)).changes == ()
    assert home.git(baked.project, "status", "--porcelain") == ""


def test_a_conflict_is_shown_as_one(released: Path, release: Release, bake: Baker, home: Home, room: Checkouts) -> None:
    """Both sides stand in the file, and the exit code of the command is 1."""
    baked = bake(template=released)
    save(baked, home, settings='{"a": "mine"}\n')
    release(settings='{"a": "theirs"}\n')
    done = CliRunner().invoke(app, ["template", "update", str(baked.project)])
    assert done.exit_code == 1, done.output
    assert "CONFLICT       .vscode/settings.json\n" in done.stdout
    text = (baked.project / ".vscode/settings.json").read_text()
    assert '<<<<<<< this project\n{"a": "mine"}\n' in text
    assert '{"a": "theirs"}\n>>>>>>> the template now\n' in text


def test_an_update_refuses_changes_that_are_not_committed(
    released: Path, release: Release, bake: Baker, room: Checkouts
) -> None:
    """They could not be told from those of the update."""
    baked = bake(template=released)
    release(makefile="OLD\n# theirs\n")
    (baked.project / "mine.txt").touch()
    with pytest.raises(InvalidRequest, match="has changes that are not committed"):
        update(baked.project, room)
    done = update(baked.project, room, allow_dirty=True)
    assert news(done, baked.project) == {"Makefile": "updated"}
    assert f"@{done.new.commit}" in (baked.project / "pyproject.toml").read_text()


def test_a_project_from_changed_files_has_to_be_told_where_it_began(
    released: Path, release: Release, bake: Baker, home: Home, room: Checkouts
) -> None:
    """No commit has what it was made from."""
    first = home.git(released, "rev-parse", "HEAD")
    (released / "note.txt").touch()
    baked = bake(template=released)
    (released / "note.txt").unlink()
    assert read_stamp(baked.project).commit is None
    release(makefile="OLD\n# theirs\n")
    with pytest.raises(InvalidRequest, match="names no commit"):
        update(baked.project, room)
    assert "Makefile" in {change.path for change in update(baked.project, room, base=first).changes}


def test_a_project_that_cruft_made_before_there_were_stamps_is_updated(
    released: Path, release: Release, home: Home, room: Checkouts, tmp_path: Path
) -> None:
    """What cruft knows is enough; from then on the project has both files."""
    (released / PACKAGE / STAMP).rename(tmp_path / "stamp")
    hook = released / "hooks" / "post_gen_project.py"
    text = hook.read_text()
    hook.write_text("")
    release(makefile="old:\n\ttrue\n")
    cruft = [Path(sys.executable).with_name("cruft"), "create", "--no-input", released]
    subprocess.run(cruft, cwd=tmp_path, env=home.environment(), check=True, capture_output=True)
    project = tmp_path / "digits"
    assert not (project / STAMP).exists()
    home.git(project, "init", "--quiet")
    home.git(project, "add", "--all")
    home.git(project, "commit", "--quiet", "--message", "Mine")
    (tmp_path / "stamp").rename(released / PACKAGE / STAMP)
    hook.write_text(text)
    release(makefile="new:\n\ttrue\n")
    assert news(update(project, room), project) == {"Makefile": "updated"}
    commit = home.git(released, "rev-parse", "HEAD")
    assert read_stamp(project).commit == commit
    assert json.loads((project / ".cruft.json").read_text())["commit"] == commit


def test_a_fleet_is_updated_on_branches(
    released: Path, release: Release, bake: Baker, home: Home, room: Checkouts
) -> None:
    """Work trees stay as they are; where there are conflicts no branch is left."""
    good, torn = bake(template=released), bake(template=released)
    save(torn, home, settings='{"a": "mine"}\n')
    (good.project / "being-written.txt").touch()
    hook = good.project / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {good.folder}/the-hook-ran\n")
    hook.chmod(0o755)
    release(settings='{"a": "theirs"}\n')
    done = CliRunner().invoke(app, ["fleet", "update", str(good.folder), str(torn.folder), "--json"])
    assert done.exit_code == 1, done.output
    first, second = json.loads(done.stdout)
    name = f"template-{home.git(released, 'rev-parse', 'HEAD')[:8]}"
    assert (first["branch"], first["done"]) == (name, True)
    assert second["outcome"].startswith("conflicts in .vscode/settings.json; there: helpers template update --to ")
    assert home.git(good.project, "show", f"{name}:.vscode/settings.json") == '{"a": "theirs"}'
    assert home.git(good.project, "status", "--porcelain") == "?? being-written.txt"
    assert home.git(torn.project, "branch", "--format=%(refname:short)") == "main"
    assert home.git(good.project, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert not (good.folder / "the-hook-ran").exists()


# --- the lab's own files -----------------------------------------------------------------------

OVERLAY = {
    "LICENSE": "Copyright (c) {{ cookiecutter.author_name }}, the lab\n",
    "pyproject.toml.append": '\n[tool.helpers]\nextends = "/projects/vision/helpers.toml"\n',
    ".pre-commit-config.yaml.append": "      - {id: lab, name: lab, entry: 'true', language: system}\n",
    "docs/{{cookiecutter.package_name}}.md": "# {{ cookiecutter.project_name }}\n",
    "lab.cfg": "old\n",
}


@pytest.fixture
def overlay(tmp_path: Path, home: Home) -> Path:
    """A lab's folder of files, under git."""
    folder = tmp_path / "overlay"
    for name, text in OVERLAY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    home.git(folder, "init", "--quiet")
    home.git(folder, "add", "--all")
    home.git(folder, "commit", "--quiet", "--message", "The lab")
    return folder


def test_a_labs_files_are_laid_over_the_project(overlay: Path, bake: Baker, home: Home) -> None:
    """A licence, a profile, a hook and a page, without a fork of the template."""
    project = bake(lab_overlay=str(overlay)).project
    assert (project / "LICENSE").read_text() == "Copyright (c) The Digits authors, the lab\n"
    assert (project / "docs/digits.md").read_text() == "# Digits\n"
    assert (project / "pyproject.toml").read_text().endswith(OVERLAY["pyproject.toml.append"])
    assert (project / ".pre-commit-config.yaml").read_text().endswith(OVERLAY[".pre-commit-config.yaml.append"])
    stamp = read_stamp(project)
    assert stamp.overlay == {"source": str(overlay), "commit": home.git(overlay, "rev-parse", "HEAD")}
    assert "lab.cfg" in stamp.files
    assert home.git(project, "status", "--porcelain") == ""


def test_no_other_file_names_a_licence_that_the_labs_own_replaced(overlay: Path, bake: Baker) -> None:
    """The README and the package's metadata point at LICENSE, whichever it is."""
    project = bake(lab_overlay=str(overlay)).project
    assert "MIT" not in (project / "README.md").read_text().split()
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert "license" not in metadata
    assert metadata["license-files"] == ["LICENSE"]


def test_a_lab_is_named_once_for_all_bakes(overlay: Path, bake: Baker, home: Home, tmp_path: Path) -> None:
    """In cookiecutter's own configuration, so that nobody has to know."""
    config = tmp_path / "lab.yaml"
    text = (home.path / "cookiecutter.yaml").read_text()
    config.write_text(f'{text}default_context:\n  lab_overlay: "{overlay}"\n  author_name: "The lab"\n')
    project = bake(environment=home.environment(COOKIECUTTER_CONFIG=str(config))).project
    assert (project / "LICENSE").read_text() == "Copyright (c) The lab, the lab\n"


def test_an_overlay_survives_an_update_and_is_updated(
    overlay: Path, release: Release, bake: Baker, home: Home, room: Checkouts
) -> None:
    """The template's news and the lab's come together."""
    baked = bake(template=release.template, lab_overlay=str(overlay))
    release(hooks="OLD\n# theirs\n", makefile="OLD\n# theirs\n")
    (overlay / "lab.cfg").write_text("new\n")
    home.git(overlay, "commit", "--quiet", "--all", "--message", "News")
    done = update(baked.project, room)
    assert done.conflicts == []
    assert news(done, baked.project).keys() == {".pre-commit-config.yaml", "Makefile", "lab.cfg"}
    hooks = (baked.project / ".pre-commit-config.yaml").read_text()
    assert "\n# theirs\n      - {id: lab," in hooks
    assert (baked.project / "lab.cfg").read_text() == "new\n"
    assert 'extends = "/projects/vision/helpers.toml"' in (baked.project / "pyproject.toml").read_text()
    assert done.new.overlay == {"source": str(overlay), "commit": home.git(overlay, "rev-parse", "HEAD")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_overlay_of_another_owner_is_updated(
    overlay: Path, release: Release, bake: Baker, home: Home, room: Checkouts
) -> None:
    """One person keeps the lab's files for all."""
    give_away(overlay)
    project = bake(template=release.template, lab_overlay=str(overlay)).project
    release(hooks="OLD\n# theirs\n", makefile="OLD\n# theirs\n")
    (overlay / "lab.cfg").write_text("new\n")
    home.git(overlay, "-c", "safe.directory=*", "commit", "--quiet", "--all", "--message", "News")
    give_away(overlay)
    assert update(project, room).conflicts == []
    assert (project / "lab.cfg").read_text() == "new\n"


def test_an_overlay_that_is_not_there_ends_the_bake(bake: Baker) -> None:
    """A project without the lab's licence must not look like one of the lab's."""
    baked = bake(lab_overlay="/nowhere/at/all")
    assert baked.code == 1
    assert "lab_overlay must name a folder that exists, got '/nowhere/at/all'" in baked.output
    assert list(baked.folder.iterdir()) == []


def test_an_overlay_that_cannot_be_fetched_ends_the_bake(bake: Baker, tmp_path: Path) -> None:
    baked = bake(lab_overlay=f"file://{tmp_path}/nothing.git")
    assert baked.code == 1
    assert "No project was made: lab_overlay" in baked.output
    assert list(baked.folder.iterdir()) == []


# --- a project that exists ---------------------------------------------------------------------


def test_a_repository_is_adopted_without_losing_anything(
    released: Path, release: Release, home: Home, room: Checkouts, tmp_path: Path
) -> None:
    """What it has stays byte for byte, or gets lines at its end; updates then bring the rest."""
    project = tmp_path / "older"
    (project / "net").mkdir(parents=True)
    mine = {
        "net/__init__.py": "",
        "pyproject.toml": '[project]\nname = "older"\nversion = "1"\n',
        ".pre-commit-config.yaml": "repos: []\n",
        ".gitignore": "*.tmp",
    }
    for name, text in mine.items():
        (project / name).write_text(text)
    done = adopt(project, room, template=str(released))
    assert done.left == (".pre-commit-config.yaml",)
    assert done.extended == ("pyproject.toml", ".gitignore")
    assert {"Makefile", "environment.yml", "container.def"} <= set(done.added)
    assert (project / ".pre-commit-config.yaml").read_text() == mine[".pre-commit-config.yaml"]
    assert (project / "pyproject.toml").read_text().startswith(mine["pyproject.toml"])
    assert "[tool.helpers.storage]" in (project / "pyproject.toml").read_text()
    assert (project / ".gitignore").read_text().startswith("*.tmp\n\n# From")
    assert "m net train" not in (project / "Makefile").read_text()
    assert not (project / "src").exists()
    assert not drift_of(project, read_stamp(project))
    home.git(project, "init", "--quiet")
    home.git(project, "add", "--all")
    (project / "Makefile").unlink()
    ignored = (project / ".gitignore").read_text().replace("/runs/\n", "")
    (project / ".gitignore").write_text(ignored)
    home.git(project, "add", "--all")
    home.git(project, "commit", "--quiet", "--message", "Adopted")
    release(settings="{}\n", hooks="repos: [theirs]\n", ignore="OLD\n/new/\n", makefile="OLD\n# theirs\n")
    updated = update(project, Checkouts(room.folder.parent))
    assert {change.path: str(change.action) for change in updated.changes} == {
        ".gitignore": "updated",
        ".vscode/settings.json": "updated",
        "environment.yml": "updated",
        "pyproject.toml": "updated",
    }
    assert f"@{updated.new.commit}" in (project / "pyproject.toml").read_text()
    assert (project / ".gitignore").read_text() == f"{ignored}\n# From the template of the lab\n/new/\n"
    assert not (project / "Makefile").exists()
    assert (project / ".pre-commit-config.yaml").read_text() == mine[".pre-commit-config.yaml"]


def test_a_project_with_a_stamp_is_not_adopted(default_bake: Bake, room: Checkouts) -> None:
    with pytest.raises(InvalidRequest, match="has a stamp"):
        adopt(default_bake.project, room)
