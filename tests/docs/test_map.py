"""The map of the pages has each of them, once and under its heading; decisions are numbered one after the other."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, prose

DOCS = ROOT / "docs"
MAP = DOCS / "README.md"
CHAPTERS = {
    "Tutorial": "tutorials", "How to": "how-to", "Reference": "reference", "Explanation": "explanation",
    "Decisions": "decisions",
}  # fmt: skip
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
_PAGE = re.compile(r"\[[^\]]+\]\(([^)#]+)\)")


def chapter(heading: str) -> str:
    """Return what stands below a heading of the map."""
    return prose(MAP).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("heading", CHAPTERS)
def test_the_map_has_each_page_once_under_its_heading(heading: str) -> None:
    """A page that nothing leads to is read by nobody."""
    pages = [page.relative_to(DOCS).as_posix() for page in (DOCS / CHAPTERS[heading]).rglob("*.md")]
    assert sorted(_PAGE.findall(chapter(heading))) == sorted(pages)


def test_the_map_knows_all_chapters() -> None:
    """A folder that is new needs a heading."""
    assert {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")} == {*CHAPTERS.values(), MAP.name}


def test_the_readme_leads_to_the_map() -> None:
    """It lists a few pages by task, and the map has all."""
    assert "(docs/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_decisions_are_numbered_without_gap_in_file_and_title() -> None:
    """A number is how others refer to one."""
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in DECISIONS]
    assert [int(re.match(r"# (\d+)\. ", title)[1]) for title in titles] == numbers  # type: ignore[index]
    assert _PAGE.findall(chapter("Decisions")) == [f"decisions/{page.name}" for page in DECISIONS]
