"""Where Slurm does not requeue, the job queues its own successor."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.attempt import batch
from helpers.runtime.run.element import element_folder
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, read_ledger, read_status

Answer = Callable[[str], None]


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Return a function that sets what ``sbatch`` does; its words are in ``words``, and nothing waits for the job."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def answer(script: str) -> None:
        for name, does in {"sbatch": f'printf "%s\\n" "$@" > {tmp_path}/words\n{script}', "squeue": "exit 0"}.items():
            (programs / name).touch(mode=0o755)
            (programs / name).write_text(f"#!/bin/sh\n{does}\n")

    answer("echo 12")
    return answer


@pytest.fixture
def element(tmp_path: Path) -> RunFolder:
    """Element 3 of an array, in a folder with a percent sign, with the log of its first batch script."""
    array = RunFolder(tmp_path / "50%")
    array.create()
    array.description.write_text("{}")
    element = element_folder(array, 3)
    element.create()
    element.batch_log.symlink_to("../../../logs/9_3.log")
    return element


def words(tmp_path: Path) -> list[str]:
    return (tmp_path / "words").read_text().splitlines()


def newest(run: RunFolder) -> dict[str, Any]:
    return read_ledger(run)[-1]


@pytest.mark.usefixtures("sbatch")
def test_an_elements_successor_goes_on_with_its_log(element: RunFolder, tmp_path: Path) -> None:
    """By the script's own pattern it was ``12_0.log``, beside the log that the element points to."""
    assert batch._submit_successor(element, 0, "9_3") == 0
    log = str(tmp_path / "50%%" / "logs" / "9_3.log")
    assert words(tmp_path)[1:4] == ["--array=0", f"--output={log}", "--dependency=afterany:9_3"]


@pytest.mark.usefixtures("sbatch")
def test_an_elements_successor_is_known_as_an_element(element: RunFolder) -> None:
    """It is an array of one: as ``12`` no line of the queue was its own, and its caller took it for lost."""
    batch._submit_successor(element, 0, "9_3")
    assert (newest(element)["job_id"], newest(element)["attempt"]) == ("12_0", 1)


@pytest.mark.usefixtures("sbatch")
def test_a_jobs_successor_is_a_job(tmp_path: Path) -> None:
    """Its script names its log."""
    run = RunFolder(tmp_path / "run")
    run.create()
    batch._submit_successor(run, 0, "9")
    assert newest(run)["job_id"] == "12"
    assert words(tmp_path) == ["--parsable", "--dependency=afterany:9", str(run.script)]


@pytest.mark.parametrize(
    ("does", "said"), [("exec sleep 60", "timed out after"), ("echo no more jobs >&2; exit 1", "no more jobs")]
)
def test_a_controller_that_takes_no_successor_ends_the_run(
    sbatch: Answer, element: RunFolder, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    """One that never answers held the job, on its node, until its time limit."""
    monkeypatch.setattr(batch, "_SBATCH_WITHIN_S", 0.5)
    sbatch(does)
    assert batch._submit_successor(element, 0, "9_3") == 1
    status = read_status(element)
    assert status is not None
    assert status.ending is not None
    assert status.state is State.PREEMPTED
    assert said in status.ending.detail
