"""Read the documentation as its readers do: pages, their code blocks, what is said in code spans.

A comment before a block, or on a line of its own at the top of a page, speaks to these tests alone::

    <!-- test: slurm -->                   (top of a page) its Python runs as a client of the test cluster
    <!-- test: shown only, <why> -->       (before a block) it is not run
    <!-- test: first <command> -->         (before a block) the tests run this first
    <!-- test: a file of its own -->       (before a block) its Python, and what follows, is another program
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
CHANGELOG = ROOT / "CHANGELOG.md"

_FENCE = re.compile(r"^( *)```(\w*) *$")
_DIRECTIVE = re.compile(r"<!-- test: (.*?) -->")
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Args:
        page: Its file.
        line: Number of its first line of content, from 1.
        language: The word after the fence; empty where there is none.
        text: Its content.
        directive: What stands for the tests in the comment before it.
    """

    page: Path
    line: int
    language: str
    text: str
    directive: str

    @property
    def is_run(self) -> bool:
        return not self.directive.startswith("shown only")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    directive, opened, language, begin = "", False, "", 0
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence and not opened:
            opened, language, begin = True, fence[2], number + 1
        elif fence:
            text = "\n".join(lines[begin - 1 : number - 1])
            found.append(Block(page, begin, language, text, directive))
            opened, directive = False, ""
        elif not opened and (comment := _DIRECTIVE.search(line)):
            directive = comment[1]
        elif not opened and line.strip():
            directive = ""
    assert not opened, f"{name_of(page)}: a block is not closed"
    return found


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    kept, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def spans(page: Path) -> list[str]:
    """Return what stands in code spans."""
    return _SPAN.findall(prose(page))


def needs_slurm(page: Path) -> bool:
    """Say whether the page's Python is for a client of the cluster."""
    head = page.read_text(encoding="utf-8").splitlines()[:4]
    return any("<!-- test: slurm -->" in line for line in head)


def programs_of(page: Path) -> list[str]:
    """Return the page's Python, as a rule one program; each line where it stands in the page."""
    programs: list[list[str]] = []
    for block in blocks(page):
        if block.language == "python" and block.is_run:
            if not programs or block.directive == "a file of its own":
                programs.append([])
            programs[-1] += [""] * (block.line - 1 - len(programs[-1]))
            programs[-1] += block.text.splitlines()
    return ["\n".join(lines) + "\n" for lines in programs]
