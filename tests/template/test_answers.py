"""Answers are data: each gives a good project, or is refused before a file is written."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import template_extension

if TYPE_CHECKING:
    from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template

RULES = template_extension.answer_rules()
GOOD = {
    "project_name": "My Net",
    "project_slug": "my-net",
    "package_name": "my_net",
    "description": "It reads.",
    "author_name": "Ana",
}


def test_good_answers_have_no_problem() -> None:
    assert RULES.problems(GOOD) == []


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("project_name", "", "must be one line of text"),
        ("project_name", "  ", "must be one line of text"),
        ("description", "a\nb", "must be one line of text"),
        ("author_name", "a\x1b[0m", "must be one line of text"),
        ("project_slug", "a/b", "must be letters, digits"),
        ("project_slug", "..", "must be letters, digits"),
        ("project_slug", "", "must be letters, digits"),
        ("project_slug", "a" * 51, "must be at most 50 characters long"),
        ("project_slug", "Torch", "must not be a name"),
        ("project_slug", "slurm.torch_helpers", "must not be a name"),
        ("package_name", "my-net", "must be lower-case letters"),
        ("package_name", "2nd", "must be lower-case letters"),
        ("package_name", "MyNet", "must be lower-case letters"),
        ("package_name", "ünicode", "must be lower-case letters"),
        ("package_name", "class", "must not be a name"),
        ("package_name", "json", "must not be a name"),
        ("package_name", "test", "must not be a name"),
        ("package_name", "torch", "must not be a name"),
        ("package_name", "helpers", "must not be a name"),
    ],
)
def test_a_bad_answer_is_told_with_its_field_and_rule(field: str, value: str, rule: str) -> None:
    """The person must know which of five answers to change, and how."""
    (problem,) = RULES.problems(GOOD | {field: value})
    assert problem.startswith(f"{field} {rule}")
    assert problem.endswith(f"got {value!r}")


@pytest.mark.parametrize(
    ("project_name", "slug", "package"),
    [
        ("My Project", "my-project", "my_project"),
        ("2nd try", "2nd-try", "project_2nd_try"),
        ("class", "class-project", "class_project"),
        ("torch", "torch-project", "torch_project"),
        ("Ünïcode Net", "unicode-net", "unicode_net"),
        ("a/b", "a-b", "a_b"),
        ("x" * 120, "x" * 42, "x" * 42),
        ("", "", ""),
    ],
)
def test_names_are_made_right_from_the_projects_name(project_name: str, slug: str, package: str) -> None:
    """Who takes what is proposed must not be refused at the end."""
    assert template_extension.project_slug(project_name) == slug
    assert template_extension.package_name(slug) == package


@pytest.mark.parametrize("text", ["\"quotes\" 'and' \\ back", "{{x}} {% y %}", "Ünï \U0001f600", "\x7f \t"])
def test_toml_gives_back_any_text(text: str) -> None:
    """A quote or a control character in an answer must not end the string that holds it."""
    assert tomllib.loads(f"text = {template_extension.toml_string(text)}") == {"text": text}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Ana\'s "Big" Net', 'Ana\'s "Big" Net'),
        ("my_net and C# & co.", "my_net and C# & co."),
        ("*bold* `code` <b> [a](b)", r"\*bold\* \`code\` \<b> \[a](b)"),
        ("# title", r"\# title"),
        ("1. point", r"1\. point"),
        ("a \\ b \\* c", r"a \ b \\\* c"),
        ("{{x}}", "{{x}}"),
    ],
)
def test_markdown_shows_text_as_it_was_typed(text: str, shown: str) -> None:
    assert template_extension.markdown(text) == shown


HOSTILE = {
    "plain": {"project_name": "My Project"},
    "quotes": {"project_name": 'Ana\'s "Big" Net'},
    "triple quotes": {"project_name": 'x """\\""" y'},
    "template": {"project_name": "a {{x}} b", "author_name": "{% raw %}"},
    "digit first": {"project_name": "2nd try"},
    "keyword": {"project_name": "class"},
    "stdlib": {"project_name": "test"},
    "dependency": {"project_name": "torch"},
    "hyphen": {"project_name": "my-net"},
    "separator": {"project_name": "a/b"},
    "unicode": {"project_name": "Ünïcode Net"},
    "120 letters": {"project_name": "abcdefghij" * 12},
    "description": {"description": 'a "quoted" \\ back {{x}} {% y %} {# z #}'},
    "author": {"author_name": 'José \\ "Ñ"'},
}


@pytest.mark.parametrize("answers", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_answer_gives_a_good_project(answers: dict[str, str], bake: Baker, home: Home) -> None:
    """A template that pastes answers as text exits 0 and leaves broken Python."""
    baked = bake(**answers)
    assert baked.code == 0, baked.output
    assert "Traceback" not in baked.output
    assert_sound(baked, home, answers)


def assert_sound(baked: Bake, home: Home, answers: dict[str, str]) -> None:
    """Every file parses, the import finds the project's own package, and answers are shown as typed."""
    pyproject = tomllib.loads((baked.project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert pyproject["description"] == answers.get("description", pyproject["description"])
    assert pyproject["authors"] == [{"name": answers.get("author_name", pyproject["authors"][0]["name"])}]
    for path in baked.project.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), path, "exec")
    title = (baked.project / "README.md").read_text(encoding="utf-8").splitlines()[0]
    assert title == f"# {template_extension.markdown(answers.get('project_name', 'Digits'))}"
    (package,) = (baked.project / "src").iterdir()
    found = subprocess.run(
        [sys.executable, "-c", f"import {package.name}; print({package.name}.__file__)"],
        env=home.environment(PYTHONPATH=str(package.parent)),
        cwd=baked.project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(package / "__init__.py")


REFUSED = {
    "empty": ({"project_name": ""}, "project_name must be one line of text, got ''"),
    "no letters": ({"project_name": "!!!"}, "project_slug must be letters, digits"),
    "folder in folder": ({"project_slug": "a/b"}, "got 'a/b'"),
    "folder above": ({"project_slug": "../x"}, "got '../x'"),
    "import of torch": ({"package_name": "torch"}, "package_name must not be a name"),
    "import of helpers": ({"package_name": "helpers"}, "package_name must not be a name"),
    "too long": ({"project_slug": "a" * 120}, "project_slug must be at most 50 characters"),
    "two lines": ({"description": "a\nb"}, "description must be one line of text"),
}


@pytest.mark.parametrize(("answers", "rule"), REFUSED.values(), ids=REFUSED)
def test_a_refused_answer_leaves_nothing_behind(answers: dict[str, str], rule: str, bake: Baker) -> None:
    """The hook that cookiecutter offers runs too late: the folder is made by then, and half of it stays."""
    baked = bake(**answers)
    assert baked.code == 1
    assert rule in baked.output
    assert "Traceback" not in baked.output
    assert list(baked.folder.iterdir()) == []


def test_a_replay_with_a_bad_answer_is_refused_too(bake: Baker, home: Home, template: Path, tmp_path: Path) -> None:
    """A replay asks nothing, so only the hook is left to say no."""
    bake(project_name="Again")
    (replay,) = (home.path / "replay").iterdir()
    answers = json.loads(replay.read_text())
    answers["cookiecutter"]["package_name"] = "torch"
    (tmp_path / "bad.json").write_text(json.dumps(answers))
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [Path(sys.executable).with_name("cookiecutter"), "--replay-file", tmp_path / "bad.json", template],
        cwd=empty,
        env=home.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "package_name must not be a name" in done.stderr
    assert list(empty.iterdir()) == []
