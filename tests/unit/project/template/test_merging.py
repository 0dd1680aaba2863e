"""A file at a time is merged, three-way; the requirement that names this library moves before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.project.template.merging import Action, Change, Trees, merge_trees
from helpers.project.template.pin import Pin

if TYPE_CHECKING:
    from pathlib import Path

COMMITS = "a" * 40, "b" * 40
OLD, NEW = (f"slurm-torch-helpers @ git+https://example.org/t@{commit}" for commit in COMMITS)
LIST = '[project]\ndependencies = [\n    "numpy",\n{more}    "{library}",\n    "torch",\n]\n'


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    """Three folders that differ in nothing but the library's requirement."""
    for name, library in (("project", OLD), ("old", OLD), ("new", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(LIST.format(more="", library=library))
    project, old, new = (tmp_path / name for name in ("project", "old", "new"))
    return Trees(project=project, old=old, new=new, made={}, pin=Pin.between(old, new, COMMITS[0]))


def merge(trees: Trees, mine: str) -> tuple[Action | None, str]:
    """Merge the file with ``mine`` as the user's; return what became of it, and its text."""
    (trees.project / "pyproject.toml").write_text(mine)
    done = merge_trees(trees, ["pyproject.toml"])
    return (done[0].action if done else None), (trees.project / "pyproject.toml").read_text()


def test_a_line_beside_the_librarys_is_no_conflict(trees: Trees) -> None:
    """By the alphabet, scipy comes before slurm-torch-helpers, whose line changes with each release."""
    more = '    "scipy>=1.11",\n'
    action, text = merge(trees, LIST.format(more=more, library=OLD))
    assert (action, text) == (Action.MERGED, LIST.format(more=more, library=NEW))


def test_the_same_commit_from_elsewhere_moves_too(trees: Trees) -> None:
    """The project came from a clone that is gone; the stamp names where the template is now."""
    elsewhere = f"slurm-torch-helpers @ git+file://localhost/gone@{COMMITS[0]}"
    assert merge(trees, LIST.format(more="", library=elsewhere)) == (
        Action.MERGED, LIST.format(more="", library=NEW),
    )  # fmt: skip


def test_a_requirement_of_the_users_own_choice_stays(trees: Trees) -> None:
    """A fork, or a release that was held back on purpose: no conflict at each update for that."""
    mine = LIST.format(more="", library="slurm-torch-helpers @ git+https://example.org/fork@main")
    assert merge(trees, mine) == (None, mine)


def test_it_moves_in_files_that_no_merge_has_seen(trees: Trees) -> None:
    """A lock, or the list of a project that was adopted; other bytes stay as they are."""
    lock = trees.project / "requirements.lock"
    lock.write_bytes(f"numpy==2.0\r\n{OLD}\r\n# \xff\n".encode("latin-1"))
    assert trees.pin.move_in(trees.project) == ["pyproject.toml", "requirements.lock"]
    assert lock.read_bytes() == f"numpy==2.0\r\n{NEW}\r\n# \xff\n".encode("latin-1")
    assert trees.pin.move_in(trees.project) == []


def test_what_is_no_text_is_left_and_told(trees: Trees) -> None:
    for folder, content in ((trees.project, b"\0mine"), (trees.old, b"\0"), (trees.new, b"\0theirs")):
        (folder / "logo.png").write_bytes(content)
    assert merge_trees(trees, ["logo.png"]) == [Change("logo.png", Action.CONFLICT)]
    assert (trees.project / "logo.png").read_bytes() == b"\0mine"


def test_a_conflict_names_both_sides(trees: Trees) -> None:
    for folder, content in ((trees.project, "mine\n"), (trees.old, "old\n"), (trees.new, "theirs\n")):
        (folder / "Makefile").write_text(content)
    assert merge_trees(trees, ["Makefile"]) == [Change("Makefile", Action.CONFLICT)]
    assert (trees.project / "Makefile").read_text() == (
        "<<<<<<< this project\nmine\n=======\ntheirs\n>>>>>>> the template now\n"
    )
