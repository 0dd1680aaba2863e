"""A requirements file of elsewhere becomes a part of the one list."""

import tomllib
from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.project.environment.adoption import adopt
from helpers.project.environment.sync import sync
from helpers.project.environment.toml_list import add_to_list
from tests.unit.project.environment.conftest import PYPROJECT

FOREIGN = """# what the paper used
--index-url https://example.org/simple
scipy~=1.11   # solvers
numpy==1.21.0
-e .
einops>=0.7 \\
    --hash=sha256:00
git+https://example.org/net.git@main#egg=net
-r more.txt
./wheels/own.whl
"""


@pytest.fixture
def foreign(project: Path) -> Path:
    """The file, which includes another."""
    (project / "more.txt").write_text("pandas==2.*\n-r requirements.txt\n")
    file = project / "requirements.txt"
    file.write_text(FOREIGN)
    return file


def test_each_line_finds_its_installer(project: Path, foreign: Path) -> None:
    """What conda has, pip does not install over it."""
    adopted = adopt(project, foreign)
    assert (adopted.conda, adopted.pip) == (
        ["scipy~=1.11", "pandas==2.*"],
        ["einops>=0.7", "net @ git+https://example.org/net.git@main"],
    )


def test_what_is_in_the_list_stays_and_what_is_no_requirement_is_named(project: Path, foreign: Path) -> None:
    """Nothing is dropped in silence."""
    adopted = adopt(project, foreign)
    assert adopted.known == ["numpy==1.21.0"]
    assert adopted.left == [
        "--index-url https://example.org/simple", "-e .", "./wheels/own.whl",
    ]  # fmt: skip


def test_every_other_character_stays(project: Path, foreign: Path) -> None:
    """Comments, too."""
    adopt(project, foreign)
    text = (project / "pyproject.toml").read_text()
    new = ["scipy~=1.11", "einops>=0.7", "net @ git+https://example.org/net.git@main", "pandas==2.*"]
    added = "".join(f'    "{one}",\n' for one in new)
    end = "    \"dask[complete]; sys_platform == 'linux'\"\n"
    assert text == PYPROJECT.replace(end, end.replace('"\n', '",\n') + added)


@pytest.mark.parametrize("before", ["[]", '["numpy"]', '["numpy",]', "[\n]", '[\n  "a[b]",\n]', '[\n  "numpy"\n]'])
def test_every_way_to_write_a_list_is_understood(before: str, project: Path) -> None:
    """The result is read again before it is written."""
    (project / "pyproject.toml").write_text(f"[project]\nname = 'x'\ndependencies = {before}\nversion = '1'\n")
    (project / "requirements.txt").write_text("scipy\n")
    adopt(project, project / "requirements.txt")
    read = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert (read["dependencies"][-1], read["version"]) == ("scipy", "1")


def test_the_adopted_list_is_synced_as_any_other(project: Path, foreign: Path) -> None:
    """That is what it is taken in for."""
    adopt(project, foreign)
    sync(project)
    conda, pip = (project / "environment.yml").read_text().split("  - pip:\n")
    assert '"scipy~=1.11"' in conda
    assert '"einops>=0.7"' in pip


def test_without_a_list_nothing_is_added(project: Path, foreign: Path) -> None:
    """A list beside the one in setup.py would take its place."""
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    with pytest.raises(InvalidRequest, match="has no list of dependencies"):
        adopt(project, foreign)


@pytest.mark.parametrize(
    "before",
    ["", "[other]\n", "[a.b]\n", "[a.b]\nlist = []\n", "[a]\nb.list = ['w']", "[a.b] # x\r\nother = 1\r\n"],
)
def test_a_list_is_begun_where_there_is_none(before: str, tmp_path: Path) -> None:
    """In its table, which may have to be begun, too; line ends stay."""
    file = tmp_path / "any.toml"
    file.write_bytes(before.encode())
    add_to_list(file, ("a", "b", "list"), ["x", 'y"'])
    assert tomllib.loads(file.read_bytes().decode())["a"]["b"]["list"][-2:] == ["x", 'y"']
    kept = before.rstrip("']\n") if "list" in before else before
    assert file.read_bytes().startswith(kept.split("other = 1")[0].encode())


def test_a_list_is_begun_at_the_end_of_its_table(tmp_path: Path) -> None:
    """Behind what stands there already, in front of what is said of the next table."""
    file = tmp_path / "any.toml"
    table = '[a]\nname = "x"\nmany = [\n[1],\n]\n'
    file.write_text(f"{table}\n# next\n[b]\n")
    add_to_list(file, ("a", "list"), ["y"])
    assert file.read_text() == f'{table}list = [\n    "y",\n]\n\n# next\n[b]\n'


@pytest.mark.parametrize("before", ["a = {b = {list = ['x']}}\n", "a.b = 3\n", "a = [1, {c = 2}]\n"])
def test_what_a_program_cannot_write_is_left_to_a_person(before: str, tmp_path: Path) -> None:
    file = tmp_path / "any.toml"
    file.write_text(before)
    with pytest.raises(InvalidRequest, match=r"nothing can be added to list in \[a\.b\]"):
        add_to_list(file, ("a", "b", "list"), ["y"])
    assert file.read_text() == before


def test_a_missing_file_is_refused(project: Path) -> None:
    """With its name."""
    with pytest.raises(InvalidRequest, match=r"gone\.txt cannot be read"):
        adopt(project, project / "gone.txt")
