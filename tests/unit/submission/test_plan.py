"""What is checked, and what is written, before anything is queued."""

from pathlib import Path

import pytest

from helpers import ClusterUnreachable, InvalidRequest, submit
from helpers.submission.keywords import check_name
from tests.unit.submission import functions


def test_a_dry_run_shows_the_script_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To read before eight GPUs are asked for."""
    preview = submit(functions.add, 1, gpus=8, nodes=2, cluster="slurm", dry_run=True)
    assert str(preview) in capsys.readouterr().out
    assert "2 nodes × 4 processes · 8 GPUs" in preview.sentence
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("name", ["", "  ", "a/b", ".hidden", "..", "two\nlines", "x" * 101, "tab\tname", "\udce9"])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    """It becomes one, and a line of the batch script."""
    with pytest.raises(InvalidRequest, match="name is one folder name"):
        check_name(name)


@pytest.mark.parametrize("name", ["lr=0.1 é", "50%", 'it\'s $(x) "y"', "two words", "-v"])
def test_an_odd_name_is_only_a_name(name: str) -> None:
    """C14: people write their hyperparameters into it."""
    assert check_name(name) == name


@pytest.mark.parametrize("keyword", ["total_time", "after", "container", "launcher", "profile"])
def test_a_reserved_keyword_never_passes_in_silence(keyword: str) -> None:
    """``total_time="7d"`` that is ignored is found a day later; where it has a meaning, 'nonsense' has none."""
    with pytest.raises(InvalidRequest):
        submit(functions.add, 1, cluster="slurm", dry_run=True, **{keyword: object()})


@pytest.mark.parametrize(("keyword", "value"), [("requeue", "always"), ("setup", [1]), ("cluster", "moon")])
def test_a_value_that_is_none_of_the_possible_is_refused(keyword: str, value: object) -> None:
    """With the possible ones."""
    with pytest.raises(InvalidRequest, match=keyword):
        submit(functions.add, 1, **{"dry_run": True, "cluster": "local", keyword: value})


def test_a_folder_that_cannot_be_written_is_refused_with_a_way_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full quota, or a read-only project."""
    (project / "file").touch()
    monkeypatch.setenv("HELPERS_RUNS", str(project / "file"))
    with pytest.raises(InvalidRequest, match="HELPERS_RUNS="):
        submit(functions.add, 1, cluster="local")


def test_a_linked_folder_keeps_its_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the link points to on the login node may not exist on the compute nodes."""
    (project / "real").mkdir()
    link = project / "link"
    link.symlink_to("real")
    monkeypatch.chdir(link)
    monkeypatch.setenv("PWD", str(link))
    script = str(submit(functions.add, 1, cluster="slurm", dry_run=True))
    assert f"--chdir={link}\n" in script
    assert f"HELPERS_RUN={link}/runs/" in script


def test_a_configured_slurm_without_commands_is_unreachable(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a run on the login node, because PATH has lost a folder."""
    monkeypatch.setenv("SLURM_CONF", str(project / "slurm.conf"))
    monkeypatch.setenv("PATH", str(project))
    with pytest.raises(ClusterUnreachable, match="sbatch on PATH"):
        submit(functions.add, 1)


def test_the_call_is_readable_by_its_owner_alone(project: Path) -> None:
    """A pickle of somebody else's is code of somebody else's."""
    job = submit(functions.add, 1, cluster="inline")
    modes = [path.stat().st_mode & 0o777 for path in (job.folder / "private", job.folder / "private" / "call.pkl")]
    assert modes == [0o700, 0o600]
