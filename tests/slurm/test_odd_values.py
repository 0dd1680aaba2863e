"""Odd names and options go through the real sbatch, slurmctld and srun: as they were given, and as nothing else."""

import stat
import subprocess
from pathlib import Path

import pytest

from helpers import Job, submit
from tests.unit.submission.functions import echo, read_variable

PATIENCE_S = 120
SECRET = "s3cr3t-0f-m1ne"  # noqa: S105 -- the point of the test
ODD = [
    "two words",
    'it\'s "quoted"',
    "$(touch stray) `touch stray`",
    "50% %j done",
    "%%t",
    "%u %j",
    "a;b|c&d>e #f",
    "--wrap=touch stray",
    "*?[a]~!{x,y}",
    "é 漢字 😀",
]


def by_slurm(job_id: str, field: str, end: str) -> str:
    """Return a field as the controller has it; values may hold spaces, so the next field's name ends it."""
    shown = subprocess.run(["scontrol", "-o", "show", "job", job_id], capture_output=True, text=True, check=True).stdout
    return shown.partition(f" {field}=")[2].partition(f" {end}=")[0].rstrip()


def test_odd_values_arrive_intact(client: Path) -> None:
    """C14: what passes our rules is what the queue, the job and the function see; nothing of it is run."""
    jobs: list[tuple[str, Job[str]]] = [
        (value, submit(echo, value, name=value, time="2min", slurm={"comment": value})) for value in ODD
    ]
    for value, job in jobs:
        first_id = job.id
        assert job.result(PATIENCE_S) == value
        assert job.folder.parent.name == value
        shown = subprocess.run(["scontrol", "show", "job", first_id], capture_output=True, text=True, check=True).stdout
        assert f"JobName={value}\n" in shown
        assert f"   Comment={value} \n" in shown
    assert list(client.rglob("stray")) == []


def test_a_secret_and_the_groups_folder_on_slurm(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch log, the script that the controller keeps and its environment are records too."""
    (client / ".env").write_text(f"TOKEN={SECRET}\n")
    (client / "pyproject.toml").write_text('[tool.helpers.defaults]\nshare = "group"\ntime = "2min"\n')
    monkeypatch.delenv("TOKEN", raising=False)
    job = submit(read_variable, "TOKEN")
    first_id = job.id
    assert job.result(PATIENCE_S) == SECRET
    for path in job.folder.rglob("*"):
        if path.is_file() and path.parent.name != "private":
            assert SECRET.encode() not in path.read_bytes(), path
            assert path.stat().st_mode & stat.S_IRGRP, path
    script = subprocess.run(["scontrol", "write", "batch_script", first_id, "-"], capture_output=True, check=True)
    assert SECRET.encode() not in script.stdout
    assert [folder.stat().st_mode & 0o777 for folder in (job.folder, job.folder / "private")] == [0o750, 0o700]


def test_a_table_of_this_cluster_counts(client: Path) -> None:
    """By Slurm's own ClusterName: one project for two clusters."""
    config = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, check=True).stdout
    name = config.partition("ClusterName")[2].partition("=")[2].split()[0]
    (client / "pyproject.toml").write_text(
        f'[tool.helpers.clusters.{name.upper()}.profiles.short]\ntime = "2min"\n'
        f'[tool.helpers.clusters.{name}-other.profiles.short]\ntime = "3min"\n'
        f'[tool.helpers.clusters.{name.upper()}.storage]\nruns = "of this cluster"\n'
    )
    job = submit(echo, 1, profile="short")
    assert by_slurm(job.id, "TimeLimit", "TimeMin") == "00:02:00"
    assert job.folder.is_relative_to(client / "of this cluster")
    assert job.result(PATIENCE_S) == 1
