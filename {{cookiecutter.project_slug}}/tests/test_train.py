import json
from pathlib import Path

import pytest
from helpers import submit

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.evaluate import evaluate
from {{ cookiecutter.package_name }}.train import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run, outside the project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("project"))
        job = submit(train, Config(epochs=15), cluster="inline")
        job.result()
    return job.folder


def test_training_reads_95_of_100_digits(run: Path):
    assert json.loads((run / "final.json").read_text())["test_accuracy"] >= 0.95


def test_evaluation_loads_what_was_trained(run: Path, tmp_path: Path):
    """The network that is judged is the one that was saved."""
    assert evaluate(run, tmp_path / "reports") >= 0.95
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == ["confusion_matrix.png", "metrics.json"]


def test_the_same_seed_gives_the_same_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A result that nobody can get again is no result."""
    monkeypatch.chdir(tmp_path)
    first, second = (submit(train, Config(epochs=2), cluster="inline").result() for _ in range(2))
    assert first == second
