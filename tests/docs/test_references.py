"""What the pages refer to exists: links, files, commands, options, names."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

import pytest
import typer

import helpers
from helpers.cli.main import app
from helpers.config.schema import PROFILE, STORAGE, TABLES, variables
from helpers.submission.arguments import RESERVED
from tests.docs.pages import CHANGELOG, PAGES, ROOT, blocks, name_of, prose, spans

if TYPE_CHECKING:
    from pathlib import Path

    import click

ALL_PAGES = [*PAGES, CHANGELOG]
REFERENCE = ROOT / "docs" / "reference"
COMMANDS: dict[str, click.Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def options_of(command: click.Command) -> set[str]:
    """Return a command's options, and those of its subcommands."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*(options_of(sub) for sub in getattr(command, "commands", {}).values()))


_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_OWN_COMMAND = re.compile(r"(?:^|[\s`$;&|(])helpers (?!import\b)([a-z]+)\b([^`|;&#\n]*)", re.MULTILINE)
_TOP = ("helpers/", "tests/", "docs/", "hooks/", "benchmarks/", ".ci/")
_FILES = ("Makefile", "pyproject.toml", "constraints.txt", "cookiecutter.json", "template_extension.py")
_VARIABLE = re.compile(r"HELPERS_[A-Z]+(?:_[A-Z]+)*")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and GitLab make them."""
    titles = [line.lstrip("#").strip() for line in prose(page).splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def code_of(page: Path) -> list[str]:
    """Return the page's code for a shell: its spans and its blocks that are not Python."""
    return [*spans(page), *(block.text for block in blocks(page) if block.language != "python")]


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """A page that moved takes its links with it."""
    for link in _LINK.findall(prose(page)):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(other), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_commands_and_options_exist(page: Path) -> None:
    """An option that was renamed is renamed in the docs."""
    for name, rest in (match for text in code_of(page) for match in _OWN_COMMAND.findall(text)):
        assert name in COMMANDS, f"there is no command: helpers {name}"
        known = options_of(COMMANDS[name])
        used = re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest.partition(" -- ")[0])
        unknown = [option for option in used if option not in known | {"--help", "-h"}]
        assert not unknown, f"helpers {name} has no {unknown}"


def is_path(text: str) -> bool:
    return (text.startswith(_TOP) or text in _FILES) and re.fullmatch(r"[\w./-]+", text) is not None


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_files_exist(page: Path) -> None:
    """A file that is named is there."""
    missing = [text for text in spans(page) if is_path(text) and not (ROOT / text).exists()]
    assert not missing


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_recipes_exist(page: Path) -> None:
    """What stands after ``make`` is a recipe of the template's Makefile or of the project's."""
    makefiles = [ROOT / "Makefile", ROOT / "{{cookiecutter.project_slug}}" / "Makefile"]
    recipes = {name for file in makefiles for name in re.findall(r"^([a-z-]+):", file.read_text(), re.MULTILINE)}
    words = (
        re.match(r"(?:\$ )?make ((?:[a-z][a-z-]* ?)+)", line) for text in code_of(page) for line in text.splitlines()
    )
    named = {name for match in words if match for name in match[1].split()}
    assert named <= recipes, named - recipes


def in_code(page: Path) -> str:
    return "\n".join([*spans(page), *(block.text for block in blocks(page))])


@pytest.mark.parametrize("module", ["helpers", "helpers.training", "helpers.testing"])
def test_every_public_name_is_in_the_reference(module: str) -> None:
    """What is public is described."""
    described = "\n".join(in_code(page) for page in REFERENCE.glob("*.md"))
    names = importlib.import_module(module).__all__
    assert [name for name in names if not re.search(rf"\b{name}\b", described)] == []


def test_every_reserved_keyword_is_described() -> None:
    """The keywords that a function cannot have are known before somebody runs into them."""
    described = (REFERENCE / "submit.md").read_text(encoding="utf-8")
    assert [name for name in RESERVED if f"`{name}`" not in described] == []


def test_every_error_is_described() -> None:
    """Each class of the tree has its line: when it is raised and what helps."""
    described = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    errors = [name for name in helpers.__all__ if isinstance(getattr(helpers, name), type)]
    raised = [name for name in errors if issubclass(getattr(helpers, name), BaseException)]
    assert [name for name in raised if f"`{name}`" not in described] == []


def test_every_variable_is_described() -> None:
    """A variable that is read or set somewhere is in the list."""
    described = (REFERENCE / "environment-variables.md").read_text(encoding="utf-8")
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "helpers").rglob("*.py"))
    assert {name for name in _VARIABLE.findall(code) if f"`{name}`" not in described} == set()


@pytest.mark.parametrize("page", ["settings.md", "environment-variables.md"])
def test_every_setting_is_described(page: str) -> None:
    """What a file may say, and the variable that says the same."""
    described = (REFERENCE / page).read_text(encoding="utf-8")
    names = list(variables())
    if page == "settings.md":
        names += [*PROFILE, *STORAGE, *TABLES]
    assert [name for name in names if not re.search(rf"[`\[]{name}[`\]. ]", described)] == []


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_described(command: str) -> None:
    """The command line's page has each command with each of its options."""
    described = (REFERENCE / "command-line.md").read_text(encoding="utf-8")
    options = [name for name in options_of(COMMANDS[command]) if name.startswith("--") and name != "--no-requeue"]
    assert f"## helpers {command}" in described
    below = getattr(COMMANDS[command], "commands", {})
    assert [name for name in below if not re.search(rf"`(helpers {command} )?{name}[` ]", described)] == []
    assert [name for name in options if f"`{name}" not in described] == []
