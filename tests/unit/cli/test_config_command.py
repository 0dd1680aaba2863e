"""``helpers config`` answers what holds, and who says so."""

import json
from pathlib import Path

import pytest

from helpers.config import files, layers
from tests.unit.cli.conftest import Command

SETTINGS = """[tool.helpers.defaults]
partition = "gpu"
slurm = { mail-type = false }

[tool.helpers.profiles.big]
gpus = "a100:4"
"""


@pytest.fixture(autouse=True)
def settings(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's file; no other, and no variable."""
    monkeypatch.delenv("HELPERS_RUNS")
    for module in (files, layers):
        monkeypatch.setattr(module, "SITE_FILE", project / "site.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "home"))
    file = project / "pyproject.toml"
    file.write_text(SETTINGS)
    return file


def rows(text: str) -> list[list[str]]:
    return [line.split(maxsplit=2) for line in text.splitlines()]


def test_explain_shows_each_value_with_its_origin(command: Command, settings: Path) -> None:
    """The line to change is found without reading four files."""
    shown = rows(command("config", "explain").stdout)
    assert ["partition", "gpu", f"{settings}:2"] in shown
    assert ["storage.runs", "runs", "library"] in shown
    assert ["account", "-", "not set; Slurm's default, or what fits the job best"] in shown
    assert ["precision", "-", "not set"] in shown  # it was called "left to the cluster", which knows nothing of it
    assert ["slurm.mail-type", "not", f"asked for  {settings}:3"] in shown
    assert ["profiles:", "big"] in shown


def test_explain_of_one_key_shows_all_layers(command: Command, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why my file does not count: the one that holds comes first."""
    monkeypatch.setenv("HELPERS_PARTITION", "low")
    shown = rows(command("config", "explain", "partition").stdout)
    assert shown == [["partition", "low", "HELPERS_PARTITION"], ["partition", "gpu", f"{settings}:2"]]


def test_explain_takes_a_profile(command: Command, settings: Path) -> None:
    """What ``--profile big`` would ask for."""
    shown = rows(command("config", "explain", "--profile", "big").stdout)
    assert ["gpus", "a100:4", f"{settings}:6 (profile big)"] in shown


def test_explain_as_json(command: Command, settings: Path) -> None:
    """For programs: the value and every layer's word."""
    shown = json.loads(command("config", "explain", "partition", "--json").stdout)
    place = {"value": "gpu", "layer": "project", "place": f"{settings}:2", "table": ""}
    assert shown == {"partition": {"value": "gpu", "layers": [place]}}


def test_an_unknown_key_is_refused_with_the_nearest(command: Command) -> None:
    """As in a file."""
    asked = command("config", "explain", "partiton")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr == "error: There is no setting 'partiton'.\nhint: did you mean partition?\n"


def test_a_slip_in_a_file_is_an_error_with_its_line(command: Command, settings: Path) -> None:
    """The same sentence that ``submit`` would give."""
    settings.write_text("[tool.helpers.defaults]\nacount = 1\n")
    asked = command("config", "explain")
    assert asked.exit_code == 2
    assert asked.stderr.startswith(f"error: {settings}:2: there is no setting 'acount'")


@pytest.mark.parametrize("name", ["where", "path"])
def test_where_lists_the_files_in_their_order(command: Command, project: Path, settings: Path, name: str) -> None:
    """Found or not: where to write one."""
    shown = rows(command("config", name).stdout)
    assert shown[:3] == [
        ["site", "-", f"{project}/site.toml"],
        ["user", "-", f"{project}/home/slurm-torch-helpers/config.toml"],
        ["project", "found", str(settings)],
    ]


def test_where_as_json(command: Command, settings: Path) -> None:
    """For programs."""
    shown = json.loads(command("config", "where", "--json").stdout)
    assert shown[-1] == {"layer": "project", "path": str(settings), "found": True, "named": ""}


def test_submit_takes_a_profile_and_shows_origins(command: Command, settings: Path) -> None:
    """Before eight GPUs are asked for."""
    settings.write_text(
        SETTINGS.replace('"a100:4"', "0").replace(
            "[tool.helpers.profiles.big]", '[tool.helpers.profiles.big]\ntime = "3h"'
        )
    )
    asked = command("submit", "script:main", "--profile", "big", "--cluster", "local", "--dry-run")
    shown = [line.split(maxsplit=3) for line in asked.stdout.splitlines() if line.startswith("#   ")]
    assert ["#", "time", "3h", f"{settings}:6 (profile big)"] in shown
    assert ["#", "partition", "gpu", f"{settings}:2"] in shown


def test_the_settings_can_send_submit_somewhere(
    command: Command, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option's default does not outrank them."""
    monkeypatch.setenv("HELPERS_CLUSTER", "inline")
    asked = command("submit", "script:main", "lr=2")
    assert "'lr': 2" in asked.stdout
