"""The first minute of trouble: what is wrong is named, with its cure, and hides nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers.cli.main import app
from helpers.doctor import ladder
from helpers.doctor.step import Step

ROOT = Path(__file__).parents[3]
MEASURED = ["device", "multiply", "all-reduce", "training"]
ALL_WELL = [Step(name=name, verdict="ok", found="well", where="here") for name in MEASURED]

Doctor = Callable[..., tuple[int, dict[str, dict[str, Any]]]]
Slurm = Callable[..., dict[str, Step]]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """Return a function that runs ``helpers doctor`` with a ``torch.py`` of ours, and returns exit code and steps."""

    def run(torch: str = "") -> tuple[int, dict[str, dict[str, Any]]]:
        if torch:
            (tmp_path / "modules").mkdir()
            (tmp_path / "modules" / "torch.py").write_text(torch)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "HELPERS"))}
        done = subprocess.run(
            [sys.executable, "-m", "helpers.cli", "doctor", "--json"],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": f"{tmp_path / 'modules'}:{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.stdout, done.stderr
        # of several with one name the first: what else is wrong with the environment comes after what it is
        steps: dict[str, dict[str, Any]] = {}
        for step in json.loads(done.stdout):
            steps.setdefault(step["name"], step)
        return done.returncode, steps

    return run


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    """Return a function that puts commands on PATH, such as ``squeue="echo"``, and asks them."""

    def ask(**scripts: str) -> dict[str, Step]:
        for name, script in scripts.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        (tmp_path / "slurm.conf").touch()
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
        return {step.name: step for step in ladder.look_at_slurm()}

    return ask


def test_on_a_sound_machine_every_step_is_taken(doctor: Doctor) -> None:
    """A process group forms, a loss falls, a checkpoint comes back: what every training rests on."""
    code, steps = doctor()
    assert {name: steps[name]["verdict"] for name in MEASURED} == dict.fromkeys(MEASURED, "ok")
    assert list(steps)[-4:] == MEASURED
    assert (code, "TFLOP/s" in steps["multiply"]["found"], "GB/s" in steps["all-reduce"]["found"]) == (0, True, True)


def test_a_torch_that_cannot_be_imported_is_named_with_the_cure_and_the_rest_is_seen(doctor: Doctor) -> None:
    """A library that is not found is the most frequent one."""
    code, steps = doctor("raise ImportError('libcudart.so.12: cannot open shared object file')")
    assert code == 1
    assert steps["environment"]["found"].startswith("Python ")
    found = {(steps[name]["verdict"], steps[name]["found"], steps[name]["cure"]) for name in MEASURED}
    words = "torch cannot be imported: libcudart.so.12: cannot open shared object file"
    assert found == {("fault", words, 'pip install "torch>=2.6"')}


def test_a_step_that_dies_hides_none_of_the_others(doctor: Doctor) -> None:
    """A driver that breaks takes the process with it, without a word of Python's."""
    code, steps = doctor("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert code == 1
    assert [steps[name]["found"] for name in MEASURED] == ["its process was ended by SIGSEGV"] * 4


def test_a_configuration_that_is_gone_is_one_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the three questions waited half a minute for it."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "gone.conf"))
    monkeypatch.setattr(ladder, "slurm_is_configured", lambda *_: True)
    (step,) = ladder.look_at_slurm()
    assert (step.verdict, step.found) == (
        "fault",
        f"SLURM_CONF names {tmp_path / 'gone.conf'}, and there is no such file.",
    )
    assert step.cure.startswith("unset SLURM_CONF")


def test_slurm_that_answers_is_told_by_what_it_has(slurm: Slurm) -> None:
    """And a node that takes no jobs does not count."""
    steps = slurm(
        squeue="echo '7 RUNNING'",
        sinfo="echo 'a mix gpu:a100:4'; echo 'b drain gpu:a100:4'; echo 'c idle (null)'",
        sacct="exit 0",
    )
    assert [(step.verdict, step.found) for step in steps.values()] == [
        ("ok", "answers; jobs of yours: 1"),
        ("ok", "2 of 3 nodes take jobs, 1 of them have GPUs"),
        ("ok", "answers; jobs of yours in the last hour: 0"),
    ]


def test_a_node_that_waits_for_others_takes_jobs(slurm: Slurm) -> None:
    """Planned for a large job or kept for a reservation, it is no broken node: placement counts it, too."""
    steps = slurm(squeue="true", sinfo="echo 'a plnd gpu:a100:4'; echo 'b resv gpu:a100:4'", sacct="true")
    assert (steps["slurm: sinfo"].verdict, steps["slurm: sinfo"].found) == (
        "ok",
        "2 of 2 nodes take jobs, 2 of them have GPUs",
    )


def test_a_controller_that_does_not_answer_is_a_fault_in_its_own_words(slurm: Slurm) -> None:
    """Not having accounting is none: states are known without it."""
    down = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    steps = slurm(squeue=down, sinfo="echo 'a down gpu:1'", sacct=down)
    assert steps["slurm: squeue"].found == "squeue fails: slurm_load_jobs error: Unable to contact slurm controller"
    assert {name: step.verdict for name, step in steps.items()} == {
        "slurm: squeue": "fault",
        "slurm: sinfo": "fault",
        "slurm: accounting": "warning",
    }
    assert all(step.cure for step in steps.values())


def test_warnings_are_shown_with_their_cure_and_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that asks before it submits must not stop for a login file."""
    warning = Step(name="environment", verdict="warning", found="~/.local is imported from", cure="export X=1")
    monkeypatch.setattr(ladder, "measure", lambda: ALL_WELL)
    monkeypatch.setattr(ladder, "look_at_slurm", list)
    monkeypatch.setattr(ladder, "look_at_environment", lambda: [warning])
    done = CliRunner().invoke(app, ["doctor"])
    assert (done.exit_code, done.output.endswith(
        "\nwarning in environment: ~/.local is imported from\n  cure: export X=1\n"
    )) == (0, True)  # fmt: skip


def test_a_hidden_library_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job of this project would import something else."""
    (tmp_path / "helpers.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    found = [step for step in ladder.look_at_environment() if step.verdict == "fault"]
    assert [(str(tmp_path / "helpers.py") in step.found, "git mv" in step.cure) for step in found] == [(True, True)]


def test_a_partition_without_a_job_is_refused() -> None:
    """Nothing would run there."""
    done = CliRunner().invoke(app, ["doctor", "--partition", "gpu"])
    assert (done.exit_code, "hint: helpers doctor --gpus 1" in done.output) == (2, True)
