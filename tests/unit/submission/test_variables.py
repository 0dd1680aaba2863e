"""What settings a job's training reads."""

from pathlib import Path

import pytest

from helpers.config import read_settings
from helpers.submission.variables import variables_of


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that settles how its models train."""
    for name in ("HELPERS_PRECISION", "HELPERS_SHARD", "HELPERS_REPORT_NETWORK"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.helpers.defaults]\nprecision = "bf16"\nshard = true\nreport_network = false\n'
    )
    return tmp_path


def test_settings_of_training_reach_the_job(project: Path) -> None:
    """The job has no reason to look for the files again; they may say something else by then."""
    assert variables_of(project, read_settings(project), on_cluster=False) == {
        "HELPERS_PRECISION": "bf16",
        "HELPERS_SHARD": "1",
        "HELPERS_REPORT_NETWORK": "0",
    }


def test_a_variable_of_the_shell_counts_more(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every setting."""
    monkeypatch.setenv("HELPERS_PRECISION", "fp32")
    assert variables_of(project, read_settings(project), on_cluster=False)["HELPERS_PRECISION"] == "fp32"
