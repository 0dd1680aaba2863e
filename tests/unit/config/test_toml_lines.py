"""An error names the line on which the fault stands."""

import random
import tomllib
from typing import Any

import pytest

from helpers.config.toml_lines import line_of, lines_of_keys

TEXT = '''# a comment = "no key"
extends = "/lab.toml"

[tool.helpers.defaults]  # [not.a.table]
partition = "gpu # no comment"
setup = [
  "module load cuda",  # key = 1
  "export A='[x]' B=1",
]
text = """
[no.table]
no = "key"
"""
literal = \'\'\'
other = '\'\'\'
slurm = { mail-type = "END", "mail-user" = "x@y" }
a.b . "c d" = 1

["tool"."helpers".profiles."a100 (big)"]
time = 10

[[list]]
key = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("extends",), 2),
        (("tool", "helpers", "defaults"), 4),
        (("tool", "helpers", "defaults", "partition"), 5),
        (("tool", "helpers", "defaults", "setup"), 6),
        (("tool", "helpers", "defaults", "text"), 10),
        (("tool", "helpers", "defaults", "literal"), 14),
        (("tool", "helpers", "defaults", "slurm"), 16),
        (("tool", "helpers", "defaults", "slurm", "mail-type"), 16),
        (("tool", "helpers", "defaults", "a", "b", "c d"), 17),
        (("tool", "helpers", "profiles", "a100 (big)", "time"), 20),
        (("list", "key"), 23),
    ],
)
def test_the_line_of_a_key(path: tuple[str, ...], line: int) -> None:
    """Strings, arrays, comments and inline tables that look like keys are none."""
    tomllib.loads(TEXT)
    assert line_of(lines_of_keys(TEXT), path) == line


def test_windows_line_ends_count_once() -> None:
    """A file that was edited on a laptop."""
    assert lines_of_keys("a = 1\r\n[t]\r\nb = 2\r\n") == {("a",): 1, ("t",): 2, ("t", "b"): 3}


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    return [path]


@pytest.mark.parametrize("seed", range(30))
def test_every_key_of_a_random_file_is_found_on_its_line(seed: int) -> None:
    """What was not thought of: each key's name says on which line it was written."""
    rng = random.Random(seed)  # noqa: S311 -- the same texts in every run
    values = ["1", '"a"', "'''\nx = 1\n'''", "[1,\n [2],\n]", '{ y = "[" }', "'#'", "1979-05-27"]
    lines: list[str] = []
    for _ in range(rng.randrange(3, 12)):
        if rng.random() < 0.4:
            lines += rng.choice(["", "# [comment] = 1", "   "]).split("\n")
        at = len(lines) + 1
        if rng.random() < 0.3:
            lines.append(f"[table{at}]" + rng.choice(["", " # x = 1"]))
        else:
            lines += f"key{at} = {rng.choice(values)}".split("\n")
    text = "\n".join(lines)
    found = lines_of_keys(text)
    for path in leaves(tomllib.loads(text)):
        name = next(part for part in reversed(path) if part[-1].isdigit())
        assert line_of(found, path) == int(name.removeprefix("table").removeprefix("key"))
