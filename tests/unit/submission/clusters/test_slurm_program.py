"""One of Slurm's programs is run for a bounded time."""

import os
import time
from pathlib import Path

import pytest

from helpers import ClusterUnreachable
from helpers.config.cluster_name import cluster_name
from helpers.submission.clusters.slurm_program import run_slurm, silence

SILENCES = ["exec sleep 60", "sleep 60", "echo begun; sleep 60", "exec 1>&- 2>&-; exec sleep 60"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that a test writes."""
    file = tmp_path / "squeue"
    file.touch(mode=0o755)
    return file


@pytest.mark.parametrize("script", SILENCES)
def test_a_program_that_hangs_is_given_up(program: Path, script: str) -> None:
    """Also one that is a shell around the real one, or that has said something, or that has closed its outputs."""
    program.write_text(f"#!/bin/sh\n{script}\n")
    begun = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=r"does not answer: .*squeue: no answer within 0\.2 s"):
        run_slurm([str(program)], os.environ, within_s=0.2)
    assert time.monotonic() - begun < 50


def test_all_that_it_prints_arrives(program: Path) -> None:
    """More than a pipe holds, on both ways out; and names that are no UTF-8 break nothing."""
    program.write_text("#!/bin/sh\nseq 100000; seq 100000 >&2; printf '\\377'; exit 3\n")
    done = run_slurm([str(program)], os.environ)
    numbers = "".join(f"{number}\n" for number in range(1, 100_001))
    assert (done.stdout, done.stderr, done.returncode) == (f"{numbers}\ufffd", numbers, 3)


def test_many_words_become_one_line() -> None:
    """Slurm says what it tries again and again."""
    error = silence("sinfo", "sinfo: error: no configuration\n  sinfo: fatal: Unable to process it.\n")
    assert error.message.endswith("answer: sinfo: sinfo: error: no configuration; sinfo: fatal: Unable to process it.")


def test_a_program_that_is_missing_is_named() -> None:
    """PATH has lost a folder; nothing is run on a login node instead."""
    with pytest.raises(ClusterUnreachable, match="There is no squeue on PATH") as caught:
        run_slurm(["squeue"], {"PATH": "/nowhere"})
    assert caught.value.hint.startswith("module load slurm")


def test_a_program_that_cannot_be_run_is_named(program: Path) -> None:
    """A file of that name without the right bits, say."""
    program.chmod(0o644)
    with pytest.raises(ClusterUnreachable, match="squeue: Permission denied"):
        run_slurm([str(program)], os.environ)


def test_a_configuration_that_is_gone_is_said_at_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's programs look for it for a minute, and each command did, without a word."""
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    gone = str(program.with_name("slurm.conf"))
    monkeypatch.setenv("SLURM_CONF", gone)
    begun = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=f"SLURM_CONF names {gone}, and there is no such file") as silent:
        run_slurm([str(program)], os.environ)
    assert silent.value.hint.startswith("unset SLURM_CONF; or")
    (program.with_name("scontrol")).symlink_to(program)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert cluster_name() is None
    assert time.monotonic() - begun < 50
