"""What a call leaves open the settings fill in, and a dry run tells who said what."""

from pathlib import Path

import pytest

from helpers import Executor, InvalidRequest, Preview, submit
from helpers.config import files, layers
from helpers.submission.resources.settings import complete_settings
from tests.unit.submission import functions

SETTINGS = """
[tool.helpers.defaults]
account = "vision"
time = "2h"
cpus = 4
setup = ["module load cuda"]
slurm = { constraint = "h100", mail-type = "END" }

[tool.helpers.profiles.big]
gpus = 8
nodes = 2
time = "8h"
"""


@pytest.fixture(autouse=True)
def settings(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's file, and no other."""
    monkeypatch.setattr(files, "SITE_FILE", project / "none.toml")
    monkeypatch.setattr(layers, "SITE_FILE", project / "none.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "none"))
    file = project / "pyproject.toml"
    file.write_text(SETTINGS)
    return file


def preview(**keywords: object) -> Preview:
    shown: object = submit(functions.add, 1, dry_run=True, **{"cluster": "slurm", **keywords})
    assert isinstance(shown, Preview)
    return shown


def origins(shown: Preview) -> dict[str, tuple[str, str]]:
    return {choice.key: (choice.value, choice.origin) for choice in shown.choices}


def test_a_setting_reaches_the_script() -> None:
    """The account that a lab bills everything to is written once."""
    lines = preview().script.splitlines()
    for line in ("--account=vision", "--time=120", "--cpus-per-task=4", "--constraint=h100", "--mail-type=END"):
        assert f"#SBATCH {line}" in lines
    assert "module load cuda" in lines


def test_the_call_counts_more_than_the_settings() -> None:
    """The last word is that of who submits."""
    script = preview(time="1h", account="speech", setup=[], slurm={"constraint": "a100"}).script
    for text in ("--time=60", "--account=speech", "--constraint=a100", "--mail-type=END"):
        assert f"#SBATCH {text}\n" in script
    assert "module load" not in script


def test_none_in_the_call_removes_an_option_of_the_settings() -> None:
    """As it removes one of ours."""
    assert "--constraint" not in preview(slurm={"constraint": None}).script


def test_a_profile_is_asked_for_by_its_name() -> None:
    """Size and time of a usual job; the call still counts more."""
    assert "2 nodes × 4 processes · 8 GPUs · 4 CPUs each · 8h" in preview(profile="big").sentence
    assert "2 nodes × 2 processes · 4 GPUs · 4 CPUs each · 8h" in preview(profile="big", gpus=4).sentence


def test_an_executor_takes_a_profile() -> None:
    """As ``submit`` does."""
    shown: object = Executor(profile="big", cluster="slurm", dry_run=True).submit(functions.add, 1)
    assert isinstance(shown, Preview)
    assert "8 GPUs" in shown.sentence


def test_a_dry_run_tells_who_said_what(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three files, a variable and a call: without the origin nobody finds the one to change."""
    shown = origins(preview(profile="big", gpus=4))
    assert shown["gpus"] == ("4", "the call")
    assert shown["nodes"] == ("2", f"{settings}:11 (profile big)")
    assert shown["account"] == ("vision", f"{settings}:3")
    assert shown["slurm.mail-type"] == ("END", f"{settings}:7")
    assert shown["processes"] == ("4", "one for each GPU")
    assert shown["setup"] == ("module load cuda", f"{settings}:6")
    assert shown["share"] == ("private", "usual: you alone can read the run folder")
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["#", "account", "vision", f"{settings}:3"] in printed


def test_a_setting_can_say_where_runs_go(project: Path, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``cluster`` is read before all else."""
    monkeypatch.setenv("HELPERS_CLUSTER", "inline")
    job = submit(functions.add, 1, b=2)
    assert (job.result(), job.description.cluster) == (3, "inline")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('time = "8 parsecs"', "A time limit is written as"),
        ('mem = "much"', "Memory is written as"),
        ('slurm = { partition = "x" }', "would contradict"),
        ('slurm = { comment = "a\\\\b" }', "without backslashes"),
    ],
)
def test_a_setting_in_a_form_that_is_none_names_its_line(settings: Path, line: str, words: str) -> None:
    """The call did not say it: the hint would lead nowhere without the place."""
    settings.write_text(f"[tool.helpers.defaults]\n\n{line}\n")
    with pytest.raises(InvalidRequest, match=f"{settings}:3: ") as raised:
        preview()
    assert words in str(raised.value)


def test_a_rerun_is_given_what_the_call_said_and_no_setting() -> None:
    """The settings are read again then: they may have been wrong."""
    job = submit(functions.add, 1, cluster="inline", time="1h")
    assert job.description.settings == {"cluster": "inline", "time": "1h"}


def test_options_of_call_and_settings_are_one_dictionary() -> None:
    """Written with dashes or underscores, an option is one option."""
    values = complete_settings({"slurm": {"mail_type": "FAIL"}}).values
    assert values["slurm"] == {"constraint": "h100", "mail-type": "FAIL"}
