"""Names, paths and options never become shell or lines for sbatch: each is refused, or arrives as it was given.

``sbatch`` is stood for by ``directives``, which reads the script's header as it does (tried with Slurm 22.05; the
same values go through the real one in ``tests/slurm/test_odd_values.py``), the batch shell by bash itself.
"""

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers import InvalidRequest, Preview, submit
from tests.unit.submission import functions

ODD = [
    *("two words", " led and trailed ", "it's", 'a "b"', "''", '"', "a;b|c&d>e<f", "#hash", "a #b", "*?[a]~!{x,y}"),
    *("$(touch stray)", "`touch stray`", "${HOME}", "$HOME", "50% %j %u %%t", "--wrap=touch stray", "-v", "a=b,c:d"),
    *(
        "é 漢字 😀",
        "a\\b",
        "trailing\\",
        "a\nb",
        "a\n#SBATCH --wrap='touch stray'\n",
        "a\r\nb",
        "a\tb",
        "a\0b",
        "\x1b[31m",
    ),
    *("a\u2028b", "a\u0085b", "\udce9", "a\x0bb", "a\x0cb", "\u202e", "'; touch stray; '", "$'\\n'", ")", "\n", ""),
]
_PIECES = [
    "'",
    '"',
    "\\",
    "$",
    "(",
    ")",
    "`",
    "%",
    "\n",
    "\r",
    " ",
    "#",
    "#SBATCH --hold",
    ";",
    "é",
    "a",
    "touch stray",
    "=",
]
_LONGEST = 60


def random_values(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)  # noqa: S311 -- to find odd texts, the same ones in every run
    return ["".join(rng.choices(_PIECES, k=rng.randrange(1, 9)))[:_LONGEST] for _ in range(count)]


VALUES = [*ODD, *random_values(150, seed=20240229)]
KEYWORDS = ["name", "partition", "account", "qos", "gpus", "comment", "mail-user", "reservation"]


def asked(keyword: str, value: str) -> dict[str, Any]:
    if keyword == "gpus":
        return {"gpus": f"{value}:1"}
    return {keyword: value} if keyword in {"name", "partition", "account", "qos"} else {"slurm": {keyword: value}}


def directives(script: str) -> list[tuple[str, str | None]]:
    """Read the options in a script's header as sbatch does: up to the first line that is no comment."""
    found = []
    for line in script.split("\n")[1:]:
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            found += [split_option(word) for word in words_of(line.removeprefix("#SBATCH"))]
    return found


def split_option(word: str) -> tuple[str, str | None]:
    name, has_value, value = word.removeprefix("--").partition("=")
    return name, value if has_value else None


def words_of(text: str) -> list[str]:
    """Split a line at spaces; a backslash takes the next character as it is, within quotes too; ``#`` is a comment."""
    words: list[str] = []
    quote, word, escaped = "", None, False
    for character in text:
        if escaped:
            word, escaped = (word or "") + character, False
        elif character == "\\":
            escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word = (word or "") + character
        elif character in "'\"":
            quote, word = character, word or ""
        elif character.isspace():
            words += [] if word is None else [word]
            word = None
        elif character == "#":
            break
        else:
            word = (word or "") + character
    assert not quote, "sbatch: fatal: unmatched quote"
    return [*words, *([] if word is None else [word])]


def dry_run(**keywords: Any) -> str | None:
    """Return the script; None where the request is refused."""
    try:
        preview: object = submit(functions.add, 1, cluster="slurm", dry_run=True, **keywords)
    except InvalidRequest:
        return None
    assert isinstance(preview, Preview)
    return preview.script


def bash_reads(script: str) -> bool:
    done = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False)
    return (done.returncode, done.stderr) == (0, b"")


OPTIONS = {"name": "job-name", "gpus": "gpus-per-node"}


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_value_is_refused_or_intact(keyword: str, project: Path) -> None:
    """One line that gets through is another's job in the user's name."""
    usual = [name for name, _ in directives(dry_run(**asked(keyword, "x")) or "")]
    passed = 0
    for value in VALUES:
        script = dry_run(**asked(keyword, value))
        if script is None or (value == "" and keyword in {"name", "gpus"}):  # no name is the function's
            continue
        found = directives(script)
        assert [name for name, _ in found] == usual, value
        wanted = f"{value}:1" if keyword == "gpus" else value
        assert dict(found)[OPTIONS.get(keyword, keyword)] == wanted, value
        passed += 1
    assert passed > (2 if keyword == "gpus" else 20)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_line_break_never_passes(keyword: str) -> None:
    """Quotes do not help: sbatch reads line by line."""
    for end in ("\n", "\r", "\r\n", "\x0b", "\x0c", "\u2028", "\u0085"):
        with pytest.raises(InvalidRequest):
            submit(functions.add, 1, cluster="slurm", dry_run=True, **asked(keyword, f"a{end}#SBATCH --hold"))


@pytest.mark.parametrize("name", ["", "-", "a b", "a\n#SBATCH --hold", "a=b", "Ä", "--", "x'", "A"])
def test_the_name_of_an_option_is_a_name(name: str) -> None:
    """It stands before the quotes."""
    assert dry_run(slurm={name: "x"}) is None


@pytest.mark.parametrize("value", [["a"], {"a": 1}, object(), b"x"])
def test_the_value_of_an_option_is_one_value(value: object) -> None:
    """What Python makes of a list is nothing that Slurm reads."""
    assert dry_run(slurm={"comment": value}) is None


def test_bash_reads_every_script(project: Path) -> None:
    """The names are in the body too, as the run folder."""
    scripts = [script for value in VALUES if (script := dry_run(name=value)) is not None]
    body = [script.replace("#!/bin/bash", "") for script in scripts]
    assert len(body) > 20
    joined = "\n".join(f"f{number}() {{\n{text}\n}}" for number, text in enumerate(body))
    assert bash_reads(joined)


@pytest.mark.parametrize("value", [value for value in VALUES if "\0" not in value and value.strip("/. ")][:60])
def test_a_folder_is_refused_or_arrives(value: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C14: a project in ``My Project (v2)``; the run folder is given to bash, its logs to Slurm."""
    folder = project / value.replace("/", "_")
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    script = dry_run(name="run")
    if script is None:
        assert "\\" in value or not value.isprintable() or value.count("%") > 1
        return
    found = dict(directives(script))
    assert found["chdir"] == str(folder)
    assert str(found["output"]).startswith(f"{folder}/runs/run/".replace("%", "%%"))
    line = next(line for line in script.splitlines() if line.startswith("export HELPERS_RUN="))
    shown = subprocess.run(["bash", "-c", f'{line}; printf %s "$HELPERS_RUN"'], capture_output=True, check=True)
    assert shown.stdout.decode().startswith(f"{folder}/runs/run/")
    assert bash_reads(script)
    assert not (folder / "stray").exists()


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        *(("50%", True), ("%j", True), ("%u", True), ("%t", True), ("%%", True), ("%j %j", True), ("%u %j", True)),
        *(("%j %u", False), ("% %t", False), ("%5t", False), ("%10N", False), ("%%%", False), ("%%%%", False)),
        *(("%%y%u", False), ("%u %j %u", False), ("100% 50%", True), ("%5", True), ("%%t", True)),
    ],
)
def test_percent_signs_that_srun_mangles_are_refused(name: str, passes: bool) -> None:
    """The logs would go nowhere and the ranks would not start: srun undoes some doubled signs and not others."""
    assert (dry_run(name=name) is not None) == passes


@pytest.mark.parametrize("value", ["a\nb", "$(touch stray)", "it's", "50%", "a\\b", "\n#SBATCH --hold"])
def test_arguments_may_hold_anything(value: str, project: Path) -> None:
    """They travel in a pickle, and in records as text."""
    job = submit(functions.echo, value, cluster="inline")
    assert job.result() == value
    assert not (project / "stray").exists()


@pytest.mark.parametrize("value", ["$(touch stray)", "it's; touch stray", "50% `touch stray`", "é 漢"])
def test_odd_names_run_on_this_machine(value: str, project: Path) -> None:
    """The local script is bash's alone."""
    job = submit(functions.echo, value, cluster="local", name=value)
    assert (job.result(240), job.folder.parent.name) == (value, value)
    assert not list(project.rglob("stray"))
