"""What can be known of a project that the template did not make; the rest is the template's own proposal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.project.template.answers import answers_for, package_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a name of its own."""
    folder = tmp_path / "older"
    folder.mkdir()
    return folder


def test_a_folder_has_its_name(project: Path) -> None:
    assert answers_for(project) == {"project_name": "older"}


def test_what_pyproject_says_is_taken(project: Path) -> None:
    text = '[project]\nname = "net"\ndescription = "One.\\nTwo."\nauthors = [{email = "a@b"}, {name = "Ada"}]\n'
    (project / "pyproject.toml").write_text(text)
    assert answers_for(project) == {"project_name": "net", "description": "One.", "author_name": "Ada"}


def test_authors_as_texts_are_passed_over(project: Path) -> None:
    """Poetry writes them so."""
    (project / "pyproject.toml").write_text('[project]\nname = "net"\nauthors = ["Ada <ada@example.org>"]\n')
    assert answers_for(project) == {"project_name": "net"}


@pytest.mark.parametrize(
    ("files", "package"),
    [
        (["src/net/__init__.py", "other/__init__.py"], "net"),
        (["net/__init__.py", "tests/__init__.py"], "net"),
        (["one/__init__.py", "two/__init__.py"], None),
        (["train.py"], None),
    ],
)
def test_the_package_is_the_only_one(files: list[str], package: str | None, project: Path) -> None:
    for name in files:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    assert package_of(project) == package


def test_a_name_that_the_template_refuses_is_no_answer(project: Path) -> None:
    """The project keeps it; the template would not be rendered."""
    (project / "Net").mkdir()
    (project / "Net" / "__init__.py").touch()
    assert answers_for(project) == {"project_name": "older"}
