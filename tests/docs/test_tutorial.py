"""The tutorials' commands give, on a real Slurm, what the tutorials show."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, name_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.conftest import ClusterWith

TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials"]
MARK = "\x1eend of command\x1e"

# What differs from one reader to the next, most telling first.
_VARIES = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}"), "<run>"),
    (re.compile(r"\b[a-z0-9]+-gpu"), "gpu"),
    (re.compile(r"(step-\d+)-epoch-\d+"), r"\1"),  # where the stop came right after an epoch
    (re.compile(r"\b(s|sec|min|h)\b"), "<unit>"),
    (re.compile(r"\d+(<unit>|min|s|h)\b"), "0<time>"),
    (re.compile(r"\d+"), "0"),
    (re.compile(r"\s+"), " "),
)


def plain(line: str, home: str = "") -> str:
    """Return a line without what varies: numbers, run ids, the cluster's prefix, the home folder."""
    text = line.replace(home, "~") if home else line
    for pattern, replacement in _VARIES:
        text = pattern.sub(replacement, text)
    return text.strip()


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Return each command of a page with the lines that are shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(page):
        if block.language != "console" or not block.is_run:
            continue
        if block.directive.startswith("first "):
            found.append((block.directive.removeprefix("first "), []))
        for line in block.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line.strip():
                assert found, f"{name_of(page)}: output without a command"
                found[-1][1].append(line)
    return found


def check(command: str, shown: list[str], printed: list[str], home: str) -> None:
    """Assert that the lines shown are among those printed, in their order; ``…`` stands for anything."""
    position = 0
    lines = [plain(line, home) for text in printed for line in text.split("\r")]
    for line in shown:
        if line.strip() == "…":
            continue
        pattern = ".*".join(re.escape(part) for part in plain(line).split("…"))
        match = next((i for i in range(position, len(lines)) if re.fullmatch(pattern, lines[i])), None)
        assert match is not None, f"$ {command}\nnot printed: {line}\n\nprinted:\n" + "\n".join(printed)
        position = match + 1


@pytest.mark.slurm
@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_commands_print_what_is_shown(
    page: Path, tmp_path: Path, reader: dict[str, str], cluster_with: ClusterWith
) -> None:
    """A reader who follows it word by word gets there; the cluster is a fresh one, so job ids are the same."""
    fresh = cluster_with(min_job_age=290)
    (tmp_path / "cookiecutter-slurm-torch").symlink_to(ROOT)
    (tmp_path / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n")
    own = {"PYTHONPATH": "src", "TEST_SLURM_CONF": fresh.environment["SLURM_CONF"]}
    shell = subprocess.Popen(
        ["bash", "--norc"], cwd=tmp_path, env=reader | own, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert shell.stdin is not None
    assert shell.stdout is not None
    try:
        for command, shown in commands(page):
            shell.stdin.write(f"{command}\necho '{MARK}'\n")
            shell.stdin.flush()
            printed: list[str] = []
            for line in shell.stdout:
                if MARK in line:
                    printed.append(line.replace(MARK, ""))
                    break
                printed.append(line.rstrip("\n"))
            check(command, shown, printed, str(tmp_path))
    finally:
        shell.stdin.close()
        shell.wait(timeout=60)
        shell.stdout.close()
