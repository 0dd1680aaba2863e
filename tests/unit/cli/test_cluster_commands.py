"""``gpus``, ``shell``, ``notebook``, ``gc``: what they print, and what they refuse."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import Result

from helpers.submission import session
from helpers.submission.inventory import Inventory, NodeGroup, Partition
from tests.unit.cli.conftest import FakeSlurm
from tests.unit.cli.terminal import helpers_on_terminal

Command = Callable[..., Result]
NODE = "NodeName=g1 CPUAlloc=0 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:1(IDX:0) State=MIXED Partitions=gpu"
LAB = """
import http.server, os, sys
port = int(next(word for word in sys.argv if word.startswith("--port=")).partition("=")[2])
assert not any(os.environ["JUPYTER_TOKEN"] in word for word in sys.argv)
http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def wait_until(what: Callable[[], bool], *, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, "that did not happen in time"
        time.sleep(0.1)


@pytest.fixture
def partitions(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A cluster with one partition."""
    nodes = (NodeGroup(count=1, usable=1, cpus=8, mem_mb=8000, gpus={"a100": 4}),)
    gpu = Partition(
        name="gpu", is_default=True, is_up=True, max_time_min=None, default_time_min=None, max_nodes=None,
        exclusive=False, preemptible=False, nodes=nodes,
    )  # fmt: skip
    inventory = Inventory(cluster="demo", partitions=(gpu,), max_array_size=1001, requeue_allowed=True)
    monkeypatch.setattr(session, "current_inventory", lambda _: inventory)
    slurm.install("scontrol", f"echo '{NODE}'")
    return slurm


class TestGpus:
    def test_a_table_for_people_and_a_list_for_programs(self, command: Command, partitions: FakeSlurm) -> None:
        """One question to the controller."""
        lines = command("gpus").stdout.splitlines()
        assert [line.split() for line in lines[1:]] == [["gpu", "a100", "1", "4", "1", "0", "3", "3"]]
        assert len(partitions.calls("scontrol")) == 1
        assert json.loads(command("gpus", "--json").stdout)[0]["free"] == 3

    @pytest.mark.usefixtures("partitions")
    def test_a_partition_without_gpus_is_refused(self, command: Command) -> None:
        """An empty table would look like a full cluster."""
        refused = command("gpus", "--partition", "cpu")
        assert (refused.exit_code, refused.stderr) == (
            2,
            "error: No partition 'cpu' has GPUs.\nhint: with GPUs: gpu\n",
        )


class TestShell:
    @pytest.mark.usefixtures("partitions")
    def test_a_dry_run_shows_the_command(self, command: Command) -> None:
        """To be changed and pasted."""
        shown = command("shell", "--gpus", "1", "--time", "2h", "--dry-run", "--", "python", "a b.py")
        assert shown.stdout.startswith("srun --job-name=shell --partition=gpu ")
        assert shown.stdout.endswith(" --time=120 --gpus-per-node=1 --pty python 'a b.py'\n")
        assert json.loads(command("shell", "--dry-run", "--json").stdout)[0] == "srun"

    @pytest.mark.usefixtures("partitions")
    def test_without_a_terminal_it_is_refused(self, command: Command) -> None:
        """It would hold a node and say nothing."""
        refused = command("shell")
        assert (refused.exit_code, refused.stderr.splitlines()[0]) == (2, "error: A shell needs a terminal.")

    def test_without_slurm_it_is_refused(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """There is nowhere to go."""
        monkeypatch.setattr("helpers.submission.clusters.slurm_is_configured", lambda *_: False)
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
        wait_until(lambda: json.loads(command("show", found["id"], "--json").stdout)["state"] == "CANCELLED")

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


class TestGc:
    @pytest.fixture(autouse=True)
    def _runs(self, command: Command) -> None:
        command("submit", "script:nothing", "--cluster", "local", "--wait")
        command("submit", "script:fail", "7", "--cluster", "local", "--wait")

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
