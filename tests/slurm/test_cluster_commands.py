"""``helpers gpus``, ``shell`` and ``notebook`` on a real Slurm."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from helpers import submit_command
from tests.unit.cli.terminal import helpers_on_terminal
from tests.waiting import wait_for

Command = Callable[..., Result]
LAB = """
import http.server, sys
port, host = (next(w for w in sys.argv if w.startswith(name)).partition("=")[2] for name in ("--port=", "--ip="))
print("serving at", host, port, flush=True)
http.server.HTTPServer(("127.0.0.1", int(port)), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture
def command(slurm_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that runs ``helpers`` in a folder of its own, as a client of the cluster."""
    from helpers.cli.main import app

    assert slurm_env
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    return lambda *words: CliRunner().invoke(app, list(words))


def used(command: Command, partition: str, kind: str) -> tuple[int, int]:
    counts = json.loads(command("gpus", "--json").stdout)
    (one,) = (count for count in counts if (count["partition"], count["kind"]) == (partition, kind))
    return one["used"], one["free"]


def test_gpus_that_a_job_has_are_not_free(command: Command) -> None:
    """By type and partition, as Slurm counts them."""
    before = used(command, "gpu", "a100")
    job = submit_command(["sleep", "600"], gpus="a100:2", time=5)
    wait_for(job.running)
    after = used(command, "gpu", "a100")
    job.cancel()
    assert job.exception(60)
    assert (after[0] - before[0], after[1] - before[1]) == (2, -2)


def test_a_shell_has_a_terminal_and_its_gpu(command: Command) -> None:
    """On the partition that is meant for it; its exit code is the command's."""
    assert command
    script = 'test -t 0 && echo "on $SLURM_JOB_PARTITION with $CUDA_VISIBLE_DEVICES"; exit 3'
    shown, code = helpers_on_terminal("shell", "--gpus", "1", "--", "sh", "-c", script)
    assert "on gpu:interactive with 0\n" in shown
    assert code == 3


def test_a_notebook_runs_on_a_node_and_says_the_way_there(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tunnel leads by this machine to the node and the port that was free there."""
    folder = tmp_path / "packages" / "jupyterlab"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text(LAB)
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    monkeypatch.syspath_prepend(str(folder.parent))
    started = command("notebook", "--gpus", "1", "--time", "5", "--json")
    found = json.loads(started.stdout)
    logs = command("logs", found["id"], "--rank", "0")
    node = subprocess.run(
        ["squeue", "--noheader", "--jobs", found["id"], "--format=%N"], capture_output=True, text=True, check=True
    ).stdout.strip()
    command("cancel", found["id"])
    assert found["url"].startswith("http://127.0.0.1:8888/?token=")
    assert found["tunnel"].startswith("ssh -N -L 8888:")
    assert node
    assert logs.exit_code == 0
