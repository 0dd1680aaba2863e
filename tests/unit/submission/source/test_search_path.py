"""Where a path of the caller leads in the job."""

import sys
from pathlib import Path

import pytest

from helpers.runtime.rank.source import Source
from tests.unit.submission.source.projects import take


@pytest.fixture
def source(code: Path) -> Source:
    return take(code).source


def test_a_folder_of_source_leads_into_the_snapshot(code: Path, source: Source) -> None:
    """The one that matters."""
    assert source.search_path([str(code / "src")]) == [f"{source.snapshot}/src"]


def test_an_environment_in_the_project_stays(code: Path, source: Source) -> None:
    """It is only linked: packages in two places would be two packages."""
    place = str(code / ".venv" / "lib" / "site-packages")
    assert source.search_path([place]) == [place]


def test_what_lies_elsewhere_stays(source: Source) -> None:
    """The standard library."""
    assert source.search_path(sys.path[-2:]) == sys.path[-2:]


def test_a_path_through_a_link_leads_there_too(code: Path, source: Source) -> None:
    """``/home/me`` may be a link."""
    link = code.parent / "link"
    link.symlink_to(code)
    assert source.search_path([str(link / "src")]) == [f"{source.snapshot}/src"]


def test_a_project_that_is_itself_the_package_comes_first(code: Path, source: Source) -> None:
    """``import digits.src`` from the folder above."""
    assert source.search_path([str(code.parent)]) == [str(Path(source.snapshot or "").parent), str(code.parent)]
