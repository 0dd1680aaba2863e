"""One daemon of the cluster: started in namespaces of its own, watched, stopped."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.availability import search_path
from tests.cluster.failure import ClusterError, log_tail
from tests.cluster.layout import Layout
from tests.cluster.processes import identity

STOP_S = 10.0
# A hostname of its own makes one machine look like several, and a hosts file of its own makes the names
# resolve without a line in the machine's. "private" keeps the mount from being seen anywhere else.
ENTER_NAMESPACES = ("unshare", "--uts", "--mount", "--propagation", "private", "sh", "-euc")
BECOME = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'


@dataclass(kw_only=True)
class Daemon:
    """A process that can be started, stopped and started again.

    Args:
        name: What it is called in ``pids``, in ``logs`` and in errors.
        hostname: The machine that it believes to run on.
        command: Program and arguments; it must stay in the foreground.
        layout: The cluster that it belongs to.
    """

    name: str
    hostname: str
    command: tuple[str, ...]
    layout: Layout
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, detached from this process's terminal and session."""
        if self.running:
            return
        arguments = (*ENTER_NAMESPACES, BECOME, "sh", self.hostname, str(self.layout.hosts), *self.command)
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                arguments,
                env=clean_environment(self.layout),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us: we stop the daemons in order
                cwd=self.layout.folder,
            )
        (self.layout.pids / self.name).write_text(identity(self.process.pid))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end; SIGKILL after ten seconds."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def check(self) -> None:
        """Raise if it has ended by itself.

        Raises:
            ClusterError: With its exit code and the end of its logs.
        """
        if not self.running:
            code = None if self.process is None else self.process.returncode
            raise ClusterError(f"{self.name} ended with code {code} while the cluster started.\n{self.explain()}")

    def wait_for_success(self, *, within_s: float) -> None:
        """Wait for a process that does one thing and ends.

        Raises:
            ClusterError: If it fails or takes too long; with the end of its log.
        """
        try:
            code = None if self.process is None else self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{self.name} took more than {within_s:.0f} s.\n{self.explain()}") from None
        if code != 0:
            raise ClusterError(f"{self.name} ended with code {code}.\n{self.explain()}")

    def explain(self) -> str:
        """Return the end of what it has printed; in the foreground that is its log too."""
        return log_tail(self._output)

    @property
    def _output(self) -> Path:
        return self.layout.logs / f"{self.name}.out"


def clean_environment(layout: Layout) -> dict[str, str]:
    """Return the environment of daemons: of the developer's own, nothing but the search path."""
    return {
        "PATH": search_path(),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(layout.folder),
        "SLURM_CONF": str(layout.slurm_conf),
        "MYSQL_UNIX_PORT": str(layout.mariadb / "socket"),  # where libmariadb looks for "localhost"
    }
