"""Jobs in containers: really in one of Charliecloud; of Apptainer and Pyxis, what they are told."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import Job, submit, submit_command
from tests.cluster import Cluster
from tests.slurm.conftest import ClusterWith, become_client
from tests.slurm.disturbances import SETTINGS
from tests.slurm.image import MARKER, NAME, make_image, project_settings
from tests.waiting import wait_for

PATIENCE_S = 150
MODULE = f"""
import os
import sys
import time
from pathlib import Path

import helpers


def look():
    try:
        Path("data/raw/scan.txt").write_text("changed")
        raw = "changed"
    except OSError as error:
        raw = error.strerror
    Path("result.txt").write_text("from inside")
    return {{
        "image": Path({MARKER!r}).read_text(),
        "helpers": helpers.__file__,
        "parent": int(os.environ["SLURM_TASK_PID"]) == os.getpid(),
        "raw": raw,
        "user": os.getuid(),
        "module": __file__,
    }}


def train(steps):
    from helpers.training import Checkpointer

    state = {{"seen": []}}
    checkpoint = Checkpointer(state, save_every=1000)
    for step in checkpoint.steps(steps):
        state["seen"].append(f"{{helpers.current_run().attempt}} in {{Path({MARKER!r}).read_text()}}")
        Path("progress").write_text(str(step))
        while step == 2 and helpers.current_run().attempt == 0 and not helpers.current_run().stop_requested():
            time.sleep(0.05)
        checkpoint.step()
    return state["seen"]
"""


@pytest.fixture(scope="module")
def cluster(cluster_with: ClusterWith) -> Cluster:
    """One with time between SIGTERM and SIGKILL: what is saved must not depend on how busy this machine is."""
    return cluster_with(**SETTINGS)


@pytest.fixture(scope="module")
def project(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose jobs run in an image, and this process as a client of the cluster in it."""
    if shutil.which("ch-run") is None and os.environ.get("HELPERS_REQUIRE_SLURM") != "1":
        pytest.skip("there is no ch-run on this machine")
    folder = tmp_path_factory.mktemp("project")
    image = make_image(tmp_path_factory.mktemp("images"))
    (folder / "pyproject.toml").write_text(project_settings(image))
    (folder / "inside_job.py").write_text(textwrap.dedent(MODULE))
    (folder / "data" / "raw").mkdir(parents=True)
    (folder / "data" / "raw" / "scan.txt").write_text("raw")
    with pytest.MonkeyPatch.context() as patch:
        become_client(cluster, patch, folder)
        patch.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop("inside_job", None)


@pytest.fixture(scope="module")
def jobs(project: Path) -> dict[str, Job[Any]]:
    """Jobs that several tests look at, submitted at once."""
    import inside_job  # type: ignore[import-not-found]  # it is made for the test

    return {
        "look": submit(inside_job.look, time=5),
        "train": submit(inside_job.train, 6, time=5),
        "program": submit_command(["env"], time=5),
    }


def test_the_function_runs_in_the_image(jobs: dict[str, Job[Any]]) -> None:
    """With the library of the submission: the two halves of a run share its folder."""
    seen = jobs["look"].result(PATIENCE_S)
    assert (seen["image"], seen["user"]) == (NAME, os.getuid())
    assert seen["helpers"].startswith("/opt/slurm-torch-helpers/")
    record = json.loads((jobs["look"].folder / "provenance.json").read_text())
    assert record["container"] == jobs["look"].description.container


def test_nothing_stands_between_slurm_and_python(jobs: dict[str, Job[Any]]) -> None:
    """Under cgroup only the process that slurmstepd has started gets the signals."""
    assert jobs["look"].result(PATIENCE_S)["parent"] is True


def test_the_code_is_the_snapshot(jobs: dict[str, Job[Any]]) -> None:
    """As without a container: edits made while the job waits change nothing."""
    assert ".snapshots" in jobs["look"].result(PATIENCE_S)["module"]


def test_raw_data_cannot_be_changed_by_the_kernels_word_and_the_project_can(
    jobs: dict[str, Job[Any]], project: Path
) -> None:
    """Also as root, whom no read-only bit stops."""
    assert jobs["look"].result(PATIENCE_S)["raw"] == "Read-only file system"
    assert (project / "data" / "raw" / "scan.txt").read_text() == "raw"
    assert (project / "result.txt").read_text() == "from inside"


def test_a_requeued_job_goes_on_from_its_checkpoint_in_the_image(jobs: dict[str, Job[Any]], project: Path) -> None:
    """The requeue is asked for outside, where Slurm's commands are; same id, nothing computed twice."""
    job = jobs["train"]
    wait_for(lambda: (project / "progress").exists() and (project / "progress").read_text() == "2")
    before = job.id
    subprocess.run(["scontrol", "requeue", job.id], check=True)
    seen = job.result(PATIENCE_S)
    assert (job.id, job.attempt, len(seen)) == (before, 1, 6)
    assert (seen[0], seen[2], seen[3], seen[5]) == (*[f"0 in {NAME}"] * 2, *[f"1 in {NAME}"] * 2)


def test_a_program_runs_in_the_image_too(jobs: dict[str, Job[Any]]) -> None:
    """The image needs no Python for that, and the machine's PATH stays outside."""
    assert jobs["program"].result(PATIENCE_S) == 0
    printed = (jobs["program"].folder / "logs" / "0" / "0.out").read_text().splitlines()
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in printed
    assert f"HELPERS_RUN={jobs['program'].folder}" in printed


def test_pyxis_is_told_image_mounts_and_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in takes its options from srun; a stand-in notes them, and starts the ranks as srun does."""
    import inside_job

    noted, real = tmp_path / "noted", shutil.which("srun")
    stand_in = tmp_path / "bin" / "srun"
    stand_in.parent.mkdir()
    stand_in.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "if sys.argv[1:] == ['--help']: sys.exit(print('  --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH'))\n"
        "theirs = [word for word in sys.argv[1:] if word.startswith(('--container-', '--no-container-'))]\n"
        f"json.dump(theirs, open({str(noted)!r}, 'w'))\n"
        f"os.execv({real!r}, ['srun', *(word for word in sys.argv[1:] if word not in theirs)])\n"
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HELPERS_CONTAINER_ENGINE", "pyxis")
    monkeypatch.setenv("HELPERS_CONTAINER_PYTHON", sys.executable)
    monkeypatch.setenv("HELPERS_CONTAINER_BINDS", f"{tmp_path}:/mnt:ro")
    job = submit(inside_job.look, time=5, container="docker://nvcr.io#nvidia/pytorch:24.05-py3")
    error = job.exception(PATIENCE_S)
    assert isinstance(error, FileNotFoundError)  # of the image's marker: the stand-in starts it on the node itself
    image, mounts, folder, entry = json.loads(noted.read_text())
    assert image == "--container-image=docker://nvcr.io#nvidia/pytorch:24.05-py3"
    assert f"{project}:{project}," in mounts
    assert f"{project}/data/raw:{project}/data/raw:ro" in mounts
    assert f"{tmp_path}:/mnt:ro" in mounts
    assert (folder, entry) == (f"--container-workdir={project}", "--no-container-entrypoint")
