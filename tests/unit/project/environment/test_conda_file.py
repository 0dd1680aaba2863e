"""A conda file of elsewhere is said as the one list says it; what cannot be is named."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers import InvalidRequest
from helpers.cli.main import app
from helpers.project.environment.conda_file import read_conda_file

FILE = """name: paper
channels: [pytorch, conda-forge]
variables: {MODE: fast}
dependencies:
  - python=3.10
  - pip
  - numpy=1.24
  - pytorch::pytorch=2.0.*=py3.10_cuda11.8
  - cudatoolkit=11.8
  - torchvision
  - scipy >=1.9, <2
  - pandas 2.1.0
  - h5py>=3|<2
  - ffmpeg=6
  - Not A Package!
  - pip:
      - einops==0.6.0
      - -r requirements.txt
      - --find-links wheels
"""


@pytest.fixture
def file(project: Path) -> Path:
    """The project's own, from before."""
    (project / "pyproject.toml").write_text('[project]\nname = "paper"\ndependencies = ["scipy>=1.11"]\n')
    (project / "requirements.txt").write_text("wandb>=0.15\n")
    path = project / "environment.yml"
    path.write_text(FILE)
    return path


def test_each_line_is_said_as_the_list_says_it(file: Path) -> None:
    """Its names and its versions are not pip's."""
    found = read_conda_file(file)
    assert found.requirements == ["numpy==1.24.*", "torch==2.0.*", "torchvision", "scipy>=1.9,<2", "pandas==2.1.0"]
    assert found.conda_only == ["h5py>=3|<2", "ffmpeg=6"]
    assert found.pip == ["einops==0.6.0", "-r requirements.txt", "--find-links wheels"]
    assert [line.partition(" (")[0] for line in found.left] == [
        "python=3.10", "cudatoolkit=11.8", "Not A Package!", "channel pytorch", "variable MODE",
    ]  # fmt: skip


def test_it_is_taken_in_and_made_anew(file: Path, project: Path) -> None:
    """Nothing is lost: what it was stays beside it."""
    done = CliRunner().invoke(app, ["env", "adopt", "environment.yml"])
    assert done.exit_code == 0, done.output
    assert "by conda: numpy==1.24.*\n" in done.stdout
    assert "by pip: torch==2.0.*\n" in done.stdout
    assert "by conda alone: ffmpeg=6\n" in done.stdout
    assert "there already, kept as it is: scipy>=1.9,<2\n" in done.stdout
    assert "left out, no requirement: --find-links wheels\n" in done.stdout
    assert "kept: environment.yml is environment.before.yml now\n" in done.stdout
    assert (project / "environment.before.yml").read_text() == FILE
    conda, pip = file.read_text().split("  - pip:\n")
    assert '"ffmpeg=6"' in conda
    assert '"scipy>=1.11"' in conda
    assert '"wandb>=0.15"' in pip
    assert CliRunner().invoke(app, ["env", "sync", "--check"]).exit_code == 0


def test_a_second_time_nothing_is_added(file: Path, project: Path) -> None:
    CliRunner().invoke(app, ["env", "adopt", "environment.yml"])
    before = (project / "pyproject.toml").read_text()
    done = CliRunner().invoke(app, ["env", "adopt", "environment.before.yml"])
    assert done.exit_code == 0, done.output
    assert (project / "pyproject.toml").read_text() == before


def test_what_was_kept_before_is_not_overwritten(file: Path, project: Path) -> None:
    (project / "environment.before.yml").write_text("older\n")
    done = CliRunner().invoke(app, ["env", "adopt", "environment.yml"])
    assert done.exit_code == 2
    assert file.read_text() == FILE
    assert "scipy" not in (project / "environment.before.yml").read_text()
    assert "numpy" not in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize("text", ["- numpy\n", "name: x\n", "a: [b\n"])
def test_what_is_none_of_condas_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.yml").write_text(text)
    with pytest.raises(InvalidRequest, match=r"other\.yml"):
        read_conda_file(tmp_path / "other.yml")


def test_a_list_of_all_that_was_installed_is_refused(tmp_path: Path) -> None:
    """Hundreds of pins with builds would become the project's list."""
    lines = "".join(f"  - package{number}=1.{number}=h0_{number}\n" for number in range(30))
    (tmp_path / "export.yml").write_text(f"dependencies:\n{lines}")
    with pytest.raises(InvalidRequest, match="lists all that was installed") as caught:
        read_conda_file(tmp_path / "export.yml")
    assert "--from-history" in caught.value.hint
