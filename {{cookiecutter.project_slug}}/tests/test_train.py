import json
from pathlib import Path

import pytest
from helpers import submit
from helpers.testing import faults

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.evaluate import evaluate
from {{ cookiecutter.package_name }}.report import read_curve
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
    trained = json.loads((run / "final.json").read_text())["test_accuracy"]
    assert f"| accuracy on 368 test images | {trained:.4f} |" in (tmp_path / "reports" / "model_card.md").read_text()


def test_a_run_shows_itself(run: Path):
    """Who comes back to it sees how it went without running anything."""
    names = ["confusion_matrix.png", "learning_curve.png", "metrics.json", "model_card.md"]
    assert sorted(path.name for path in (run / "reports").iterdir()) == names
    assert len(read_curve(run)) == 15


def test_the_same_seed_gives_the_same_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A result that nobody can get again is no result."""
    monkeypatch.chdir(tmp_path)
    first, second = (submit(train, Config(epochs=2), cluster="inline").result() for _ in range(2))
    assert first == second


def test_a_stopped_run_ends_as_if_nothing_had_been(tmp_path: Path):
    """A preemption comes at any moment; a variable that is missing in the checkpoint would show here."""
    faults.stop(train, Config(epochs=3), folder=tmp_path, times=1).check()
