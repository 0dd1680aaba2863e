"""The cluster as tests see it: a context manager with an environment, nodes and switches."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster import cgroups
from tests.cluster.availability import why_unavailable
from tests.cluster.client import client_environment
from tests.cluster.configuration import write_configuration
from tests.cluster.daemons import Daemon
from tests.cluster.devices import make_devices
from tests.cluster.failure import ClusterError
from tests.cluster.layout import LONGEST_FOLDER, NODES, Layout, free_ports, new_instance
from tests.cluster.processes import identity
from tests.cluster.settings import ClusterSettings, ProcessTracking
from tests.cluster.startup import make_daemons, nodes_are_idle, slurmd_of, start_all, wait_until
from tests.cluster.teardown import Record, tear_down, tear_down_abandoned, write_record

PREFIX = f"slurm-torch-cluster-{os.getuid()}"


def remove_abandoned() -> list[Path]:
    """Remove the clusters whose process was killed before it could; return what their folders were."""
    return tear_down_abandoned(Path(tempfile.gettempdir()), f"{PREFIX}-*")


class Cluster:
    """A real Slurm with a controller and two nodes of four fake GPUs and two MIG slices each.

    Args:
        settings: How it differs from the default.
        folder: Where its state lies; must not exist yet. Default: a new one in the temporary folder. Jobs of
            other users need every folder above it to be open to them.
        background: Outlive this process, until somebody calls ``python -m tests.cluster down``.
    """

    def __init__(
        self, settings: ClusterSettings | None = None, *, folder: Path | None = None, background: bool = False
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.background = background
        self._folder = folder
        self._layout: Layout | None = None
        self._daemons: dict[str, Daemon] = {}

    @property
    def layout(self) -> Layout:
        """Names, ports and paths."""
        if self._layout is None:
            raise ClusterError("The cluster is not running. Use it inside: with Cluster() as cluster:")
        return self._layout

    @property
    def folder(self) -> Path:
        """The folder that holds all state."""
        return self.layout.folder

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, which are their hostnames too."""
        return self.layout.nodes

    @property
    def proctrack(self) -> ProcessTracking:
        """The process tracking in force; not what was asked for where cgroups cannot be written."""
        return self.settings.proctrack

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be a client of this cluster."""
        return {"SLURM_CONF": str(self.layout.slurm_conf)}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Bring it up; return when both nodes are idle.

        A start that fails is tried once more, in a new folder and on new ports, and the first failure is said:
        between its choice and its use a port may be taken, and a database is not always born on a machine that
        is busy.

        Raises:
            ClusterError: If it cannot be started; nothing of it is left then.
        """
        if reason := why_unavailable():
            raise ClusterError(reason)
        if self._layout is not None:
            raise ClusterError(f"This cluster runs already, in {self._layout.folder}.")
        try:
            self._start_once()
        except ClusterError as error:
            print(f"cluster: the first start failed, so here is a second one. {error}", file=sys.stderr)
            self._start_once()

    def _start_once(self) -> None:
        self._layout = self._new_layout()
        try:
            self._prepare()
            start_all(self._layout, self.settings, self._daemons)
        except BaseException:  # also on Ctrl-C: half a cluster must not stay
            self.stop()
            raise

    def stop(self) -> None:
        """End everything that was started and remove the folder; harmless when it is not running."""
        if self._layout is None:
            return
        tear_down(self._layout)
        for daemon in self._daemons.values():
            if daemon.process is not None:
                daemon.process.wait()  # already dead; our own child wants to be asked
        self._layout = None
        self._daemons = {}

    def run(
        self, *command: str, check: bool = True, timeout_s: float = 60, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a client's command, such as ``squeue``, and return what it printed.

        Args:
            command: Program and arguments.
            check: Raise where its exit code is not 0.
            timeout_s: Seconds until it is killed.
            cwd: Where it runs, and where a job that names no other place writes its output.

        Raises:
            ClusterError: If it fails and ``check`` is set; with what it printed.
        """
        environment = client_environment() | self.environment
        done = subprocess.run(
            command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=timeout_s
        )
        if check and done.returncode != 0:
            said = f"{done.stdout}{done.stderr}".strip()
            raise ClusterError(f"{' '.join(command)} ended with code {done.returncode}: {said}")
        return done

    def stop_daemon(self, name: str, *, node: str | None = None, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop one daemon and wait for its end; jobs on the node go on.

        Args:
            name: ``slurmctld``, ``slurmdbd``, ``mariadbd``, ``munged``, or ``slurmd`` with its ``node``.
            node: Whose ``slurmd``.
            how: The signal; SIGKILL for a crash.
        """
        self._daemon(name, node).stop(how)

    def start_daemon(self, name: str, *, node: str | None = None) -> None:
        """Start one daemon again; see ``stop_daemon``. It may take a moment to answer."""
        self._daemon(name, node).start()

    def set_node_state(self, node: str, state: str) -> None:
        """Set a node to ``DOWN``, ``DRAIN``, ``RESUME``, …: its jobs see a lost node at once."""
        self.run("scontrol", "update", f"nodename={node}", f"state={state}", "reason=test")

    def wait_until_saved(self, *, quiet_s: float = 7) -> None:
        """Return when the controller has written down all that it knows: it does so 5 s after a change."""
        state = self.layout.folder / "state" / "job_state"
        while time.time() - state.stat().st_mtime < quiet_s:
            time.sleep(0.2)

    def wait_until_idle(self, *, within_s: float = 60) -> None:
        """Return when every node is idle again: no job, no node down or completing.

        Raises:
            ClusterError: If that does not happen in time.
        """
        wait_until(lambda: nodes_are_idle(self.layout), self._daemon("slurmctld", None), within_s=within_s)

    def _daemon(self, name: str, node: str | None) -> Daemon:
        wanted = name if node is None else slurmd_of(node)
        if wanted not in self._daemons:
            raise ClusterError(f"No daemon {wanted!r} here; there are: {', '.join(self._daemons)}")
        return self._daemons[wanted]

    def _new_layout(self) -> Layout:
        folder = self._folder
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-"))
        elif not folder.exists():
            folder.mkdir(parents=True)
        else:
            raise ClusterError(f"{folder} exists. Give a folder that does not, or remove it.")
        return Layout(folder=folder.resolve(), instance=new_instance(), ports=free_ports(2 + NODES))

    def _prepare(self) -> None:
        layout = self.layout
        if len(str(layout.folder)) > LONGEST_FOLDER:
            raise ClusterError(f"{layout.folder} is too long for a socket's path; at most {LONGEST_FOLDER}.")
        layout.folder.chmod(0o755)  # jobs of other users must find the sockets
        if self.settings.proctrack == "cgroup" and not cgroups.are_writable(layout.instance):
            print(
                "cluster: cgroup v1 cannot be written here, so proctrack=linuxproc: memory and devices are not limited",
                file=sys.stderr,
            )
            self.settings = replace(self.settings, proctrack="linuxproc")
        owner = "" if self.background else identity(os.getpid())
        write_record(Record(layout=layout, owner=owner, proctrack=self.proctrack, accounting=self.settings.accounting))
        for folder in (layout.logs, layout.pids, layout.folder / "state", layout.folder / "spool"):
            folder.mkdir()
        make_devices(layout.devices)
        write_configuration(layout, self.settings)
        self._daemons = make_daemons(layout, self.settings)
