"""A slip in a file of settings is named with its file, its line and the nearest word; nothing is passed by."""

import os
from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.config import read_settings
from tests.unit.config.conftest import Write


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidRequest) as raised:
        read_settings(folder)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[tool.helpers]\n\n[tool.helpers.defaults]\npartiton = "x"\n', 4, "did you mean partition?"),
        ('[tool.helpers.default]\npartition = "x"\n', 1, "did you mean defaults?"),
        ('[tool.helpers]\npartition = "x"\n', 2, "put it into [tool.helpers.defaults]"),
        ('[tool.helpers.storage]\n# where\nrun = "x"\n', 3, "did you mean runs?"),
        ("[tool.helpers.defaults]\ngpus = 4\n", 2, "[profiles.<name>]"),
        ("[tool.helpers.defaults]\ncpus = 0\n", 2, "cpus is a whole number from 1 up; got 0"),
        ("[tool.helpers.defaults]\ncpus = true\n", 2, "cpus is a whole number from 1 up; got True"),
        ('[tool.helpers.defaults]\ncpus = "4"\n', 2, "hint: cpus = 4"),
        ("[tool.helpers.defaults]\naccount = 7\n", 2, "account is one line of text; got 7"),
        ('[tool.helpers.defaults]\naccount = "a\\nb"\n', 2, "account is one line of text"),
        ('[tool.helpers.defaults]\nshare = "all"\n', 2, 'share is "private" or "group"; got \'all\''),
        ('[tool.helpers.defaults]\nrequeue = "yes"\n', 2, 'requeue is "auto", true or false'),
        ("[tool.helpers.defaults]\nrequeue = 1\n", 2, 'requeue is "auto", true or false'),
        ("[tool.helpers.defaults]\nsetup = [1]\n", 2, "setup is a shell line, or a list of them"),
        ("[tool.helpers]\ndefaults = 1\n", 2, "defaults is a table"),
        ("[tool.helpers]\nextends = 1\n", 2, "extends is the path of a file"),
        ("[tool.helpers.defaults.slurm]\nmail-type = [1]\n", 2, "slurm.mail-type is text, a number, true"),
        ('[tool.helpers.defaults.slurm]\n"a\\nb" = 1\n', 2, "an sbatch option has a long name"),
        ("[tool.helpers.profiles.big]\nnodes = -1\n", 2, "nodes is a whole number"),
        ("[tool.helpers.profiles.big]\nnode = 1\n", 2, "did you mean nodes?"),
        ('[tool.helpers.clusters.demo.storage]\nrun = "x"\n', 2, "did you mean runs?"),
        ("[tool.helpers.clusters.demo]\n[tool.helpers.clusters.Demo]\n", 2, "demo and Demo are one"),
    ],
)
def test_a_slip_is_named_with_its_line(project: Path, write_project: Write, text: str, line: int, words: str) -> None:
    """A setting that is ignored in silence is found when the bill comes."""
    file = write_project(text)
    assert refusal(project).startswith(f"{file}:{line}: ")
    assert words in refusal(project)


def test_what_is_no_toml_is_named_with_the_line(project: Path, write_user: Write) -> None:
    """The user's own file has no editor that checks it."""
    file = write_user('[defaults]\npartition = "gpu\n')
    assert refusal(project).startswith(f"{file} is no valid TOML: ")
    assert "line 2" in refusal(project)


def test_a_file_is_read_again_when_it_has_changed(project: Path, write_user: Write) -> None:
    """A notebook lives for days; its user edits a setting."""
    write_user('[defaults]\npartition = "one"\n')
    assert read_settings(project).get("partition") == "one"
    write_user('[defaults]\npartition = "two"\n')
    assert read_settings(project).get("partition") == "two"


def test_a_file_is_read_once_as_long_as_it_stays(
    project: Path, write_user: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop of submissions does not parse the same file a thousand times."""
    file = write_user('[defaults]\npartition = "one"\n')
    read_settings(project)
    before = file.stat()
    file.write_text(file.read_text().replace("one", "two"))  # the same size, and the same time
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_settings(project).get("partition") == "one"


def test_a_file_that_goes_away_counts_no_more(project: Path, write_user: Write) -> None:
    """As if it had never been there."""
    write_user('[defaults]\npartition = "one"\n').unlink()
    assert read_settings(project).get("partition") is None


def test_underscores_in_slurms_options_are_dashes(project: Path, write_user: Write) -> None:
    """Both are written, and both mean the same option."""
    write_user('[defaults.slurm]\nmail_type = "END"\n')
    assert read_settings(project).get("slurm.mail-type") == "END"
