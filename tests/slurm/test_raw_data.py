"""Case C41 on the real Slurm: a job that writes into raw data is found by the next check, which names the file."""

import json
import subprocess
from pathlib import Path

import pytest

from helpers import RawDataChanged, submit_command
from helpers.project.raw_data.adding import add
from helpers.runtime.raw_data.area import raw_area
from helpers.runtime.raw_data.check import check

PATIENCE_S = 120
OVERWRITE = ["sh", "-c", "chmod u+w data/raw/a.csv; echo 9,9 > data/raw/a.csv"]


@pytest.fixture
def project(client: Path) -> Path:
    """The current folder, as a project with a raw file."""
    (client / "pyproject.toml").write_text('[tool.helpers.defaults]\ntime = "2min"\n')
    (client / "data/raw").mkdir(parents=True)
    (client / "data/raw/a.csv").write_text("1,2\n")
    add(raw_area(client), [client / "data/raw/a.csv"])
    return client


def raw_data_in(folder: Path) -> dict[str, object]:
    record = json.loads((folder / "provenance.json").read_text())["raw_data"]
    return {"state": record["state"], "wrong": record["manifests"]["raw"]["wrong"]}


def test_a_job_that_writes_into_raw_data_is_found_by_the_next_check(project: Path) -> None:
    """By the command, and by the next job in its log and its provenance."""
    first = submit_command(OVERWRITE)
    assert first.result(PATIENCE_S) == 0
    changed = "changed: data/raw/a.csv (its content is another)"
    assert check(raw_area(project)).lines() == [changed]
    second = submit_command(["true"])
    assert second.result(PATIENCE_S) == 0
    assert raw_data_in(second.folder) == {"state": "wrong", "wrong": [changed]}
    assert f"RAW DATA IS NOT AS DECLARED in data/raw.manifest:\n[helpers]   {changed}" in second.logs()


def test_where_the_settings_refuse_it_the_function_is_not_called(project: Path) -> None:
    """The data was good when the job was submitted, and is changed while it waits."""
    (project / "pyproject.toml").write_text('[tool.helpers.defaults]\ntime = "2min"\nraw_data = "refuse"\n')
    job = submit_command(["touch", "called"], slurm={"hold": True})
    (project / "data/raw/a.csv").chmod(0o644)
    (project / "data/raw/a.csv").write_text("9,9\n")
    subprocess.run(["scontrol", "release", job.id], check=True, capture_output=True)
    error = job.exception(PATIENCE_S)
    assert isinstance(error, RawDataChanged)
    assert "raw data is not as declared: changed: data/raw/a.csv (its content is another)" in str(error)
    assert not (project / "called").exists()
