"""What waits for a job is moved to its successor, and nothing else is touched."""

from pathlib import Path

import pytest

from helpers.runtime.attempt import slurm

WAITING = """21|afterok:12(unfulfilled)
22|afterok:12_3(unfulfilled)
23|afterany:7(unfulfilled),afterok:12(unfulfilled)
24|afterok:123(unfulfilled)
25|(null)
13|afterany:12(unfulfilled)
"""


def test_only_dependents_of_this_very_job_are_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of job 123 nor those of one element of an array; the successor itself waits for the end."""
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{WAITING}END\n")
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    for name in ("squeue", "scontrol"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert slurm.move_dependents("12", "13") == ["21", "23"]
    assert (tmp_path / "asked").read_text().splitlines() == [
        "update JobId=21 Dependency=afterok:13",
        "update JobId=23 Dependency=afterany:7,afterok:13",
    ]


WAITING_FOR_ELEMENTS = """21|afterok:12_*(unfulfilled)
22|afterok:12_3(unfulfilled)
23_[0-8%2]|afterany:12_*(unfulfilled),afterok:7(unfulfilled)
24|afterok:12_30(unfulfilled),afterok:12_4(unfulfilled)
25_4|aftercorr:12_*(unfulfilled)
26|afterok:7(unfulfilled)?afterok:12_3(unfulfilled)
27|after:12_3+5(unfulfilled)
15_[0]|afterany:12_3(unfulfilled)
"""


def test_what_waits_for_the_array_waits_for_an_elements_successor_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm counts the element that has left as a success, and would let them begin without its work."""
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat <<'END'\n{WAITING_FOR_ELEMENTS}END\n")
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    for name in ("squeue", "scontrol"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert slurm.move_dependents("12_3", "15") == ["21", "22", "23", "25_4", "26"]
    assert (tmp_path / "asked").read_text().splitlines() == [
        "update JobId=21 Dependency=afterok:12,afterok:15",
        "update JobId=22 Dependency=afterok:15",
        "update JobId=23 Dependency=afterany:12,afterany:15,afterok:7",
        "update JobId=25_4 Dependency=aftercorr:12,afterok:15",
        "update JobId=26 Dependency=afterok:7?afterok:15",
    ]


def test_one_that_cannot_be_moved_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It belongs to somebody else, say."""
    (tmp_path / "squeue").write_text("#!/bin/sh\necho '21|afterok:12(unfulfilled)'\n")
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    for name in ("squeue", "scontrol"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert slurm.move_dependents("12", "13") == []
    assert "job 21 waits for 12 and could not be moved to 13" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "told"), [("NODE_FAIL", "NODE_FAIL"), ("PENDING", "PENDING"), ("RUNNING", None)])
def test_a_job_that_slurm_has_taken_away_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, told: str | None
) -> None:
    """Its srun may end with 0 before the batch shell is ended: that is no death of a process."""
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho 'JobId=12 JobState={word} Reason=None'\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert slurm.has_requeued("12") == told
