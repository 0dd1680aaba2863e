"""Start the parts in the order in which they need each other, as far as possible side by side.

Nothing here sleeps for a fixed time: each part is asked until it answers, and a part that ends meanwhile is
an error with its log.
"""

import os
import secrets
import subprocess
import time
from collections.abc import Callable

from tests.cluster.configuration import DATABASE
from tests.cluster.daemons import Daemon, clean_environment
from tests.cluster.failure import ClusterError
from tests.cluster.layout import Layout
from tests.cluster.settings import ClusterSettings

PATIENCE_S = 60.0
MUNGED, MARIADBD, SLURMDBD, SLURMCTLD = "munged", "mariadbd", "slurmdbd", "slurmctld"
# Not a daemon, but started like one: interrupted, its own children must be found and ended.
INSTALL = "mariadb-install-db"
# The kernel's asynchronous input and output is bounded for the whole machine, which may hold other databases.
SMALL_AND_PLAIN = ("--innodb-log-file-size=10M", "--innodb-buffer-pool-size=32M", "--innodb-use-native-aio=0")

Daemons = dict[str, Daemon]


def slurmd_of(node: str) -> str:
    """Return the name of a node's own daemon."""
    return f"slurmd-{node}"


def make_daemons(layout: Layout, settings: ClusterSettings) -> Daemons:
    """Return every daemon of this cluster, none of them started."""
    commands: dict[str, tuple[str, tuple[str, ...]]] = {MUNGED: (layout.controller, _munged(layout))}
    if settings.accounting:
        commands[INSTALL] = (layout.controller, _install(layout))
        commands[MARIADBD] = (layout.controller, _mariadbd(layout))
        commands[SLURMDBD] = (layout.controller, ("slurmdbd", "-D"))
    commands[SLURMCTLD] = (layout.controller, ("slurmctld", "-D"))
    for node in layout.nodes:
        commands[slurmd_of(node)] = (node, ("slurmd", "-D", "-N", node))
    return {
        name: Daemon(name=name, hostname=hostname, command=command, layout=layout)
        for name, (hostname, command) in commands.items()
    }


def start_all(layout: Layout, settings: ClusterSettings, daemons: Daemons) -> None:
    """Start every part and return when both nodes are idle.

    Raises:
        ClusterError: If a part ends, or does not answer within a minute.
    """
    _write_munge_key(layout)
    daemons[MUNGED].start()
    if settings.accounting:
        _start_database(layout, daemons[INSTALL], daemons[MARIADBD])
        wait_until(layout.munge_socket.exists, daemons[MUNGED])
        daemons[SLURMDBD].start()
        wait_until(lambda: answers(layout, "sacctmgr", "-nP", "list", "cluster"), daemons[SLURMDBD])
        _fill_accounts(layout)
    wait_until(layout.munge_socket.exists, daemons[MUNGED])
    working = [daemons[SLURMCTLD], *(daemons[slurmd_of(node)] for node in layout.nodes)]
    for daemon in working:
        daemon.start()
    wait_until(lambda: nodes_are_idle(layout), *working)


def wait_until(ready: Callable[[], bool], *daemons: Daemon, within_s: float = PATIENCE_S) -> None:
    """Ask until the answer is yes, as long as these daemons live.

    Raises:
        ClusterError: If one of them ends, or the time is over; with the end of their logs.
    """
    deadline = time.monotonic() + within_s
    while not ready():
        for daemon in daemons:
            daemon.check()
        if time.monotonic() > deadline:
            logs = "\n".join(daemon.explain() for daemon in daemons)
            names = ", ".join(daemon.name for daemon in daemons)
            raise ClusterError(f"{names} did not answer within {within_s:.0f} s.\n{logs}")
        time.sleep(0.05)


def answers(layout: Layout, *command: str) -> bool:
    """Tell whether a client's command succeeds."""
    return _client(layout, *command).returncode == 0


def nodes_are_idle(layout: Layout) -> bool:
    """Tell whether the controller has heard of every node and none is in trouble."""
    listed = _client(layout, "sinfo", "--noheader", "--Node", "--format=%N %T", "--partition=gpu")
    return sorted(listed.stdout.split("\n")[:-1]) == [f"{node} idle" for node in layout.nodes]


def _client(layout: Layout, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=clean_environment(layout),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def _munged(layout: Layout) -> tuple[str, ...]:
    folder = layout.munge_socket.parent
    return (
        "munged",
        "--foreground",
        "--force",  # a caller's folder may be closed to other users: their jobs fail then, ours do not
        f"--socket={layout.munge_socket}",
        f"--key-file={folder}/key",
        f"--pid-file={folder}/pid",
        f"--seed-file={folder}/seed",
    )


def _write_munge_key(layout: Layout) -> None:
    folder = layout.munge_socket.parent
    folder.mkdir(mode=0o755)
    key = os.open(folder / "key", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(key, "wb") as file:
        file.write(secrets.token_bytes(128))


def _mariadbd(layout: Layout) -> tuple[str, ...]:
    return (
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={layout.mariadb}/data",
        f"--socket={layout.mariadb}/socket",
        f"--pid-file={layout.mariadb}/pid",
        "--skip-networking",
        # What it holds is thrown away: fast matters, surviving a power cut does not.
        "--innodb-flush-method=nosync",
        "--innodb-flush-log-at-trx-commit=0",
        *SMALL_AND_PLAIN,
        "--innodb-lock-wait-timeout=900",  # slurmdbd complains of less
    )


def _install(layout: Layout) -> tuple[str, ...]:
    return (
        INSTALL,
        "--no-defaults",
        "--user=root",
        f"--datadir={layout.mariadb}/data",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--innodb-flush-method=nosync",
        *SMALL_AND_PLAIN,
    )


def _start_database(layout: Layout, install: Daemon, mariadbd: Daemon) -> None:
    layout.mariadb.mkdir(mode=0o700)
    install.start()
    install.wait_for_success(within_s=PATIENCE_S)
    mariadbd.start()
    client = ["mariadb", "--no-defaults", f"--socket={layout.mariadb}/socket", "--user=root", "--execute"]
    wait_until(lambda: answers(layout, *client, f"CREATE DATABASE IF NOT EXISTS {DATABASE}"), mariadbd)


def _fill_accounts(layout: Layout) -> None:
    for what in (
        ["cluster", layout.cluster_name],
        ["account", "lab", f"cluster={layout.cluster_name}"],
        ["user", "root", "account=lab", f"cluster={layout.cluster_name}", "adminlevel=admin"],
    ):
        _must(layout, "sacctmgr", "--immediate", "add", *what)


def _must(layout: Layout, *command: str) -> None:
    done = _client(layout, *command)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)} ended with code {done.returncode}.\n{done.stdout}{done.stderr}")
