"""Answers are data: each gives a good project, or is refused before a file is written."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from markdown_it import MarkdownIt

import template_extension

if TYPE_CHECKING:
    from markdown_it.token import Token

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
        ("author_name", "a\x9b0m", "must be one line of text"),
        ("author_name", "a\u2028b", "must be one line of text"),
        ("description", "\ud800", "must be one line of text"),
        ("description", " a", "must not begin or end with a space"),
        ("project_slug", "-x", "must be letters, digits"),
        ("project_slug", "a b", "must be letters, digits"),
        ("project_slug", "$(id)", "must be letters, digits"),
        ("project_slug", "ünï", "must be letters, digits"),
        ("project_slug", "True", "must not be a name"),
        ("project_slug", "JSON", "must not be a name"),
        ("project_slug", "Typing.Extensions", "must not be a name"),
        ("package_name", "rich", "must not be a name"),
        ("package_name", "telnetlib", "must not be a name"),
        ("package_name", "a\n", "must be lower-case letters"),
        ("lab_overlay", "--upload-pack=x", "must be empty, a whole path"),
        ("lab_overlay", "/#--force", "must have a branch, tag or commit"),
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
        ("Class", "class-project", "class_project"),
        ("JSON", "json-project", "json_project"),
        ("Helpers", "helpers-project", "helpers_project"),
        ("--help", "help", "help"),
        ("$(id) `id`", "id-id", "id_id"),
        ("日本", "ri-ben", "ri_ben"),
        ("\U0001f600", "", ""),
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
        ("-", r"\-"),
        ("2026. A year", r"2026\. A year"),
        ("$5", "$5"),
        ("$5 or $6", r"\$5 or $6"),
    ],
)
def test_markdown_shows_text_as_it_was_typed(text: str, shown: str) -> None:
    assert template_extension.markdown(text) == shown


TEXTS = {
    "quotes": r"""Ana's "Big" Net \"\"\" ''' "" '''""",
    "backslashes": "C:\\new \\u0041 \\\\ \\* \\",
    "braces": "a {{x}} b {% raw %} {# c #} ${{ d }} {{ {% {#",
    "right to left": "\u202e \u05d0\u05d1\u05d2 net \u200f",
    "combining and emoji": "Une\u0301 U\u0308ni \U0001f469\u200d\U0001f52c \ufeff",
    "shell": "net $(touch pwned) `touch pwned` ${HOME}; touch pwned & x | y > z",
    "percent": "%s %(net)s %% %n {0} {net}",
    "leading dash": "--help",
    "long": "abcdefghij " * 500 + "x",
    "Markdown": "12. *b* _i_ <b>x</b> [l](u) ![i](u) &amp; $a$ ~~s~~ #",
    "YAML": "yes: [no, {a: &b *c}] # null ~ !!int 1 | >",
    "keyword": "class",
    "standard library": "test",
    "dependency": "torch",
    "separator": "a/../b",
    "digit first": "2nd try",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_hostile_answer_gives_a_good_project(text: str, bake: Baker, home: Home) -> None:
    """A template that pastes answers as text exits 0 and leaves broken Python."""
    baked = bake(project_name=text, description=text, author_name=text)
    assert baked.code == 0, baked.output
    assert "Traceback" not in baked.output
    assert "pwned" not in {Path(name).name for name in baked.files()}
    assert_carried(baked, text)
    for path in baked.project.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), path, "exec")
    assert_own_package(baked, home)


def test_a_folder_in_capitals_has_a_package_in_small_letters(bake: Baker, home: Home) -> None:
    """On a disk that does not tell them apart, two of one name would be one."""
    text = "DIGITS"
    baked = bake(project_name=text, description=text, author_name=text, project_slug=text)
    assert (baked.project.name, [path.name for path in (baked.project / "src").iterdir()]) == ("DIGITS", ["digits"])
    assert_carried(baked, text)
    assert_own_package(baked, home)


def assert_carried(baked: Bake, text: str) -> None:
    """Each file holds the answer as it was typed, in its own way to write it."""
    files = {path.name: path.read_text(encoding="utf-8") for path in baked.project.iterdir() if path.is_file()}
    pyproject = tomllib.loads(files["pyproject.toml"])["project"]
    assert (pyproject["description"], pyproject["authors"]) == (text, [{"name": text}])
    answers = json.loads(files[".template.json"])["context"]["cookiecutter"]
    assert (answers["project_name"], answers["description"], answers["author_name"]) == (text, text, text)
    assert yaml.safe_load(files["environment.yml"])["name"] == answers["project_slug"] == pyproject["name"]
    assert files["LICENSE"].splitlines()[2] == f"Copyright (c) {text}"
    assert shown(files["README.md"])[:2] == [("heading", text), ("paragraph", text)]


def shown(markdown: str) -> list[tuple[str, str]]:
    """Return the kind and the plain text of each block, as a reader of the rendered page sees it."""
    tokens = MarkdownIt("commonmark").enable("strikethrough").parse(markdown)
    return [
        (before.type.removesuffix("_open"), "".join(_plain(one) for one in inline.children or []))
        for before, inline in itertools.pairwise(tokens)
        if inline.type == "inline"
    ]


def _plain(token: Token) -> str:
    """Return the text of a token; its kind, where it would be more than text."""
    return token.content if token.type in {"text", "text_special"} else f"<{token.type}>"


def assert_own_package(baked: Bake, home: Home) -> None:
    """The import finds the project's own package."""
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


def test_no_name_of_what_is_installed_with_the_project_can_be_taken(default_bake: Bake) -> None:
    """A package called rich would break the command line that imports another."""
    project = tomllib.loads((default_bake.project / "pyproject.toml").read_text())["project"]
    known = installed_with([*project["dependencies"], *project["optional-dependencies"]["dev"]])
    imports = {name for name, owners in packages_distributions().items() if known & set(map(plain, owners))}
    names = {*known, *(name for name in imports if re.fullmatch(r"[a-z][a-z0-9_]*", name))}
    assert {"torch", "rich", "yaml", "typing-extensions"} <= names
    assert {name for name in names if not RULES.is_taken(name)} == set()


def installed_with(requirements: list[str]) -> set[str]:
    """Return the distributions that come with these, themselves included, as far as they are installed here."""
    found: set[str] = set()
    waiting = [one for one in requirements if "extra ==" not in one]
    while waiting:
        name = plain(re.match(r"[\w.-]+", waiting.pop())[0])  # type: ignore[index]
        with contextlib.suppress(PackageNotFoundError):
            if name not in found:
                waiting += [one for one in distribution(name).requires or [] if "extra ==" not in one]
                found.add(name)
    return found


def plain(name: str) -> str:
    """Return a distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name.lower())


def test_a_file_of_an_overlay_stays_in_the_project(bake: Baker, tmp_path: Path) -> None:
    """An answer with slashes is data in a path, too."""
    (tmp_path / "{{cookiecutter.author_name}}.md").write_text("x\n")
    baked = bake(author_name="../../x", lab_overlay=str(tmp_path))
    assert baked.code != 0
    assert "would be written outside of it, to ../../x.md" in baked.output


REFUSED = {
    "white space": ({"description": "   "}, "description must be one line of text, got '   '"),
    "a name that is none of ours": ({"description": "{{ cookiecutter.nothing }}"}, "Unable to render"),
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
    answers = json.loads((home.path / "replay" / f"{template.name}.json").read_text())  # other templates have theirs
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
