"""``gpus``, ``shell``, ``notebook``, ``gc``: what they print, and what they refuse."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import Result

from helpers.runtime.gpus.lease import new_ticket, wait_for_gpus
from helpers.runtime.gpus.nvml import list_gpus
from helpers.runtime.gpus.queue import GpuQueue, leases_folder
from helpers.testing import FakeSlurm, Node, Partition, Settings
from tests.gpu_driver.cards import Cards
from tests.unit.cli.conftest import SCRIPT
from tests.unit.cli.terminal import helpers_on_terminal
from tests.waiting import wait_for

Command = Callable[..., Result]
LAB = """
import http.server, os, sys
port = int(next(word for word in sys.argv if word.startswith("--port=")).partition("=")[2])
assert not any(os.environ["JUPYTER_TOKEN"] in word for word in sys.argv)
http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture
def fake_slurm_settings() -> Settings:
    """A cluster with one node in one partition."""
    nodes = (Node(name="g1", gpus={"a100": 4}),)
    return Settings(nodes=nodes, partitions=(Partition(name="gpu", is_default=True),))


class TestGpus:
    def test_a_table_for_people_and_a_list_for_programs(self, command: Command, slurm: FakeSlurm) -> None:
        """One question to the controller."""
        slurm.release_queue()
        command("submit", "script:sleep", "--gpus", "a100:1")
        slurm.wait_for("1", "RUNNING")
        asked = len(slurm.calls("scontrol"))
        lines = command("gpus").stdout.splitlines()
        assert [line.split() for line in lines[1:]] == [["gpu", "a100", "1", "4", "1", "0", "3", "3"]]
        assert len(slurm.calls("scontrol")) == asked + 1
        assert json.loads(command("gpus", "--json").stdout)[0]["free"] == 3

    @pytest.mark.usefixtures("slurm")
    def test_a_partition_without_gpus_is_refused(self, command: Command) -> None:
        """An empty table would look like a full cluster."""
        refused = command("gpus", "--partition", "cpu")
        assert (refused.exit_code, refused.stderr) == (
            2,
            "error: No partition 'cpu' has GPUs.\nhint: with GPUs: gpu\n",
        )


class TestGpusOfThisMachine:
    @pytest.fixture(autouse=True)
    def _no_slurm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("helpers.submission.clusters.choice.slurm_is_configured", lambda *_: False)

    def test_who_holds_what_and_who_waits(self, command: Command, cards: Cards) -> None:
        """With the run folder, to look at; and as data."""
        cards.are([{"uuid": "GPU-0", "busy": 7}, {"uuid": "GPU-1", "processes": [[1, 900]]}])
        queue = GpuQueue(leases_folder(os.environ))
        held, waiting = (new_ticket({}, list_gpus(), job=job, folder="/r", wants=1) for job in ("local-1", "local-2"))
        lease = wait_for_gpus(queue, held, is_stopped=lambda: False, tell=print)
        assert lease is not None
        with queue.locked():
            descriptor, _ = queue.add(waiting)
        lines = [line.split() for line in command("gpus").stdout.splitlines()]
        assert lines[1][:8] == ["0", "NVIDIA", "H200", "140G", "0.0G", "7%", "local-1", "of"]
        assert lines[2][6:] == ["no", "lease", "pid", "1", "of", "root", "with", "900", "MiB"]
        assert [line[0] for line in lines[-2:]] == ["job", "local-2"]
        record = json.loads(command("gpus", "--json").stdout)
        assert (record[0]["held_by"]["job"], record[0]["held_by"]["pid"]) == ("local-1", os.getpid())
        os.close(descriptor)
        lease.give_back()

    def test_no_gpus_are_said(self, command: Command, cards: Cards) -> None:
        """An empty table says nothing."""
        assert "there are no GPUs" in command("gpus").stderr


class TestShell:
    @pytest.mark.usefixtures("slurm")
    def test_a_dry_run_shows_the_command(self, command: Command) -> None:
        """To be changed and pasted."""
        shown = command("shell", "--gpus", "1", "--time", "2h", "--dry-run", "--", "python", "a b.py")
        assert shown.stdout.startswith("srun --job-name=shell --partition=gpu ")
        assert shown.stdout.endswith(" --time=120 --gpus-per-node=1 --pty python 'a b.py'\n")
        assert json.loads(command("shell", "--dry-run", "--json").stdout)[0] == "srun"

    @pytest.mark.usefixtures("slurm")
    def test_without_a_terminal_it_is_refused(self, command: Command) -> None:
        """It would hold a node and say nothing."""
        refused = command("shell")
        assert (refused.exit_code, refused.stderr.splitlines()[0]) == (2, "error: A shell needs a terminal.")

    def test_without_slurm_it_is_refused(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """There is nowhere to go."""
        monkeypatch.setattr("helpers.submission.clusters.choice.slurm_is_configured", lambda *_: False)
        assert command("shell").exit_code == 2


class TestNotebook:
    def test_without_jupyter_it_says_how_to_get_it(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """Before it takes a node."""
        monkeypatch.setattr("helpers.runtime.notebook.find_application", lambda: None)
        refused = command("notebook", "--cluster", "local")
        assert refused.exit_code == 2
        assert refused.stderr.endswith("hint: pip install jupyterlab\n")

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Something that listens where Jupyter would."""
        folder = tmp_path / "packages" / "jupyterlab"
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "__main__.py").write_text(LAB)
        monkeypatch.setenv("PYTHONPATH", str(folder.parent))
        monkeypatch.syspath_prepend(str(folder.parent))

    @pytest.mark.usefixtures("lab")
    def test_it_prints_the_address_with_the_token(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """Which stands in no command line and in no file that others can read."""
        monkeypatch.delenv("SSH_CONNECTION", raising=False)
        started = command("notebook", "--cluster", "local", "--json")
        found = json.loads(started.stdout)
        assert found["tunnel"] is None
        assert found["url"].startswith("http://127.0.0.1:")
        record = json.loads(command("show", found["id"], "--json").stdout)
        address = Path(record["folder"]) / "private" / "notebook.json"
        assert address.stat().st_mode & 0o777 == 0o600
        assert json.loads(address.read_text())["token"] in found["url"]
        command("cancel", found["id"])
        wait_for(lambda: json.loads(command("show", found["id"], "--json").stdout)["state"] == "CANCELLED")

    @pytest.mark.usefixtures("lab")
    def test_a_dry_run_for_a_program_is_json(self, command: Command) -> None:
        """It was the batch script."""
        shown = command("notebook", "--cluster", "local", "--dry-run", "--json")
        assert (shown.exit_code, "helpers.runtime" in json.loads(shown.stdout)["script"]) == (0, True)

    def test_from_a_node_it_takes_a_tunnel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the login node, to the port that was free there."""
        from helpers.cli.notebook import _tunnel

        monkeypatch.setattr("os.uname", lambda: SimpleNamespace(nodename="login1"))
        monkeypatch.setattr("getpass.getuser", lambda: "ada")
        where = {"node": "gpu7", "port": 41234}
        monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 22 10.0.0.2 22")
        assert _tunnel(where, 8888, on_slurm=True) == "ssh -N -L 8888:gpu7:41234 ada@login1"
        assert _tunnel(where, 8888, on_slurm=False) == "ssh -N -L 8888:127.0.0.1:41234 ada@login1"
        monkeypatch.delenv("SSH_CONNECTION")
        assert _tunnel(where, 8888, on_slurm=False) is None


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: one that succeeded, and one that failed."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "script.py").write_text(SCRIPT)
    for words in (["script:nothing"], ["script:fail", "7"]):
        command = [sys.executable, "-m", "helpers.cli", "submit", "--cluster", "local", "--wait", *words]
        subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PWD": str(folder), "HELPERS_RUNS": str(folder / "runs")},
            capture_output=True,
            check=False,
        )
    return folder / "runs"


class TestGc:
    @pytest.fixture(autouse=True)
    def _runs(self, two_runs: Path, tmp_path: Path) -> None:
        shutil.copytree(two_runs, tmp_path / "runs", symlinks=True)

    def test_it_lists_and_removes_nothing(self, command: Command) -> None:
        """A look must be safe."""
        listed = command("gc")
        assert [line.split()[1:3] for line in listed.stdout.splitlines()[1:]] == [
            ["nothing", "COMPLETED"],
            ["fail", "FAILED"],
        ]
        assert "nothing was removed" in listed.stderr
        assert len(json.loads(command("gc", "--state", "failed", "--json").stdout)) == 1

    def test_without_a_terminal_and_without_yes_nothing_goes(self, command: Command) -> None:
        """A script has to say that it means it."""
        refused = command("gc", "--state", "failed", "--delete")
        assert refused.exit_code == 2
        assert len(json.loads(command("gc", "--json").stdout)) == 2

    def test_a_delete_says_what(self, command: Command) -> None:
        """Everything is never meant."""
        assert command("gc", "--delete", "--yes").exit_code == 2
        removed = command("gc", "--state", "failed", "--delete", "--yes", "--json")
        assert [record["removed"] for record in json.loads(removed.stdout)] == [True]
        assert [record["name"] for record in json.loads(command("gc", "--json").stdout)] == ["nothing"]

    def test_no_is_no(self, command: Command) -> None:
        """Asked on a terminal, Return alone keeps them."""
        assert "Remove these 2 runs" in self._answered("n")
        assert len(json.loads(command("gc", "--json").stdout)) == 2

    @staticmethod
    def _answered(answer: str) -> str:
        shown, code = helpers_on_terminal("gc", "--older", "0d", "--delete", typed=f"{answer}\n")
        assert code == 1
        return shown
