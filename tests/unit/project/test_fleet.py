"""All projects of a lab at a glance, from what lies on disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from typer.testing import CliRunner

from helpers import submit
from helpers.cli.main import app
from helpers.errors import InvalidRequest
from helpers.project.fleet.exchange import as_json, merge_reports
from helpers.project.fleet.report import find_projects, look_at
from helpers.project.template.stamp import STAMP, sha256

COMMIT = "1f" * 20
NOBODY = 65534
IDENTITY = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
PYPROJECT = f"""[project]
name = "{{name}}"
dependencies = ["slurm-torch-helpers @ git+https://example.org/t.git@{COMMIT}"]
[tool.helpers]
"""


def make_project(folder: Path, *, makefile: str = "all:\n") -> Path:
    """Write a project with a stamp, whose Makefile was ``all:`` once."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(name=folder.name))
    (folder / "Makefile").write_text(makefile)
    stamp = {
        "template": "https://example.org/t.git",
        "commit": COMMIT,
        "version": "0.1.0",
        "context": {"cookiecutter": {"project_name": "x"}},
        "files": {"Makefile": sha256(b"all:\n"), "gone.cfg": sha256(b"")},
        "shared": {},
    }
    (folder / STAMP).write_text(json.dumps(stamp))
    return folder


def seven() -> int:
    return 7


def test_a_project_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "net", makefile="mine:\n")
    monkeypatch.chdir(project)
    submit(seven, cluster="inline")
    report = look_at(project)
    assert report.template == "0.1.0 (1f1f1f1f)"
    assert report.drift == "1 changed, 1 deleted"
    assert report.helpers == "asks for 1f1f1f1f"
    assert report.raw_data == "no manifest"
    assert report.last_run == "seven COMPLETED"
    assert report.checks == "none"
    assert report.problem == ""


def test_the_version_that_is_installed_counts_more(tmp_path: Path) -> None:
    project = make_project(tmp_path / "net")
    (project / ".venv/lib/python3.12/site-packages/slurm_torch_helpers-0.3.0.dist-info").mkdir(parents=True)
    assert look_at(project).helpers == "0.3.0"


def test_a_project_that_is_broken_hides_no_other(tmp_path: Path) -> None:
    """One of fifty always is."""
    broken = make_project(tmp_path / "broken")
    (broken / STAMP).write_text("{")
    (broken / "pyproject.toml").write_text("[tool.helpers")
    make_project(tmp_path / "good")
    first, second = (look_at(project) for project in find_projects([tmp_path]))
    assert "pyproject.toml: " in first.problem
    assert "cannot be read as a stamp" in first.problem
    assert second.problem == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("pyproject.toml", b"project = 3\n[tool.helpers]\n", "pyproject.toml: project is a table, not 3"),
        ("pyproject.toml", b"[project]\nname = 3\ndependencies = 5\n[tool.helpers]\n", "dependencies: 'int' object"),
        ("pyproject.toml", b"\xff\xfe", "pyproject.toml: 'utf-8' codec"),
        (STAMP, b"[]", "cannot be read as a stamp"),
        ("data/raw.manifest", b"nonsense", "a line has path, size and sha256"),
        ("runs/train/20261130-1-a/run.json", b"", ""),
    ],
)
def test_whatever_is_in_a_file_the_others_are_shown(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    """A file of another kind than expected is a problem of its project alone."""
    broken = make_project(tmp_path / "broken")
    (broken / name).parent.mkdir(parents=True, exist_ok=True)
    (broken / name).write_bytes(content)
    make_project(tmp_path / "good")
    done = CliRunner().invoke(app, ["fleet", str(tmp_path), "--json"])
    first, second = json.loads(done.stdout)
    assert said in first["problem"]
    assert (second["name"], second["problem"]) == ("good", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_project_that_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A colleague's, in a folder that all share."""
    with TemporaryDirectory() as name:
        shared = Path(name)
        monkeypatch.setenv("HOME", str(shared / "home"))
        make_project(shared / "theirs").chmod(0o700)
        make_project(shared / "mine").chmod(0o755)
        shared.chmod(0o755)
        os.seteuid(NOBODY)
        try:
            mine, theirs = (look_at(project) for project in find_projects([shared]))
        finally:
            os.seteuid(0)
    assert (mine.name, mine.problem) == ("mine", "")
    assert (theirs.name, theirs.problem) == ("theirs", "cannot be read: Permission denied")


def test_a_project_is_shown_once_whatever_links_to_it(tmp_path: Path) -> None:
    """And a link that leads nowhere, or in a circle, is none."""
    project = make_project(tmp_path / "net")
    (tmp_path / "also").symlink_to(project)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert find_projects([tmp_path]) == [project]


def test_projects_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """Two clones of one project."""
    first = make_project(tmp_path / "net")
    second = make_project(tmp_path / "clone")
    (second / "pyproject.toml").write_text((first / "pyproject.toml").read_text())
    shown = CliRunner().invoke(app, ["fleet", str(tmp_path)]).stdout
    assert all(name in shown for name in ("net (clone)", "net (net)"))


def test_checks_of_a_linked_work_tree_are_those_of_its_repository(tmp_path: Path) -> None:
    """Its .git is a file, and its hooks are elsewhere."""
    project = make_project(tmp_path / "net")
    (project / ".pre-commit-config.yaml").touch()
    assert look_at(project).checks == "not under git"
    for words in (
        ["init"],
        ["add", "--all"],
        [*IDENTITY, "commit", "--message", "x"],
        ["worktree", "add", "../linked"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)
    assert look_at(tmp_path / "linked").checks == "not installed"
    (project / ".git" / "hooks" / "pre-commit").touch()
    assert look_at(tmp_path / "linked").checks == "installed"


def test_a_folder_without_projects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="There is no project in"):
        find_projects([tmp_path])


def test_reports_of_two_hosts_are_put_together(tmp_path: Path) -> None:
    """The newest of each project and host counts."""
    report = look_at(make_project(tmp_path / "net"))
    records = json.loads(as_json([report]))[0]
    (tmp_path / "a.json").write_text(json.dumps([records, {**records, "host": "atlas"}]))
    (tmp_path / "b.json").write_text(json.dumps([{**records, "looked_at": records["looked_at"] + 1, "helpers": "9"}]))
    merged = merge_reports([tmp_path / "a.json", tmp_path / "b.json"])
    assert sorted((one.host, one.helpers) for one in merged) == sorted([(report.host, "9"), ("atlas", report.helpers)])
    shown = CliRunner().invoke(app, ["fleet", "--merge", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0].startswith("HOST")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "it holds no list"),
        ("[3]", "a project has name, host, path; got 3"),
        ('[{"host": "a"}]', "a project has name, host, path"),
        ('[{"name": "a", "host": "a", "path": "/a", "looked_at": null}]', "looked_at cannot be None"),
        ('[{"name": "a", "host": "a", "path": "/a", "changed": "x"}]', "changed cannot be 'x'"),
    ],
)
def test_what_is_no_report_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        merge_reports([tmp_path / "other.json"])


def test_a_report_of_a_newer_library_is_read(tmp_path: Path) -> None:
    """Hosts are not updated on one day."""
    (tmp_path / "new.json").write_text('[{"name": "a", "host": "h", "path": "/a", "invented_later": 3}]')
    (report,) = merge_reports([tmp_path / "new.json"])
    assert (report.name, report.drift) == ("a", "no stamp")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fleet", "--merge", "no.json"], "no.json is no report"),
        (["fleet", "update"], "helpers fleet update needs a PATH"),
        (["fleet", ".", "--to", "v1"], "--to goes with helpers fleet update"),
    ],
)
def test_a_request_that_cannot_be_served_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_cookiecutter_is_asked_for_only_where_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has the library alone is told the line that installs it."""
    project = make_project(tmp_path / "net")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    status = CliRunner().invoke(app, ["template", "status", str(project)])
    assert status.exit_code == 1  # there is drift
    assert "deleted: gone.cfg" in status.stdout
    update = CliRunner().invoke(app, ["template", "update", str(project)])
    assert update.exit_code == 2
    assert "hint: python -m pip install 'cookiecutter>=2.6'" in update.stderr
