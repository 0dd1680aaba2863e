"""Start the MPI ranks of one node by Open MPI's own daemons, and pass signals on to them.

Started as ``python -m helpers.runtime.mpi.node``, once on each node, by ``srun`` or by the supervisor of a local run,
where Slurm cannot start MPI's ranks itself. On the first node it runs ``mpirun``; the daemon that ``mpirun`` wants on
another node it does not start through a shell of its own there, it hands the words to this program on that node
(``daemon.py``). So all ranks are in one step of Slurm's: its limits, its accounting and its signals hold.

``mpirun`` would end the job at once on a SIGTERM, so it never sees one: the signals go from here to the ranks, which
save and leave as they do under ``srun``. A rank that fails ends the others, as ``srun --kill-on-bad-exit`` does; who
it was is printed in srun's words, by which :mod:`helpers.runtime.attempt.death` finds it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psutil

from helpers.runtime.current import current_run
from helpers.runtime.exit_code import as_shell_code
from helpers.runtime.files import read_json
from helpers.runtime.mpi.daemon import daemon_file
from helpers.runtime.mpi.rank import MPIRUN, is_mpirun_rank
from helpers.runtime.rank.addresses import nodes_of_job
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.stop import STOP_SIGNALS

if TYPE_CHECKING:
    from types import FrameType
    from typing import IO

    from helpers.runtime.run.folder import AttemptFolder, RunFolder

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_POLL_S = 0.05
_NOT_FOUND = 127
_LAST_WORDS = 20_000  # characters of what mpirun has said in which its word on the first failure is looked for
_KILLED_AFTER_S = 5  # from the SIGTERM for the ranks beside one that has failed to their SIGKILL
_HELD_BACK = ",".join(number.name.removeprefix("SIG") for number in STOP_SIGNALS)
_RANK = f"""hold='env --block-signal={_HELD_BACK}'; $hold true 2>/dev/null || hold=
exec $hold "$@" >>"$0/$OMPI_COMM_WORLD_RANK.out" 2>>"$0/$OMPI_COMM_WORLD_RANK.err" """
_BEFORE_THE_RANK = frozenset({"sh", "dash", "bash", "env"})  # what the line above is, until it is the rank
_BY_WORD = re.compile(r"process rank (\d+) with PID \d+ on\s+node (\S+) exited\s+on\s+signal (\d+)")
_BY_CODE = re.compile(r"Process name:\s*\[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+)")


@dataclass
class _Signals:
    """The signals that came, and how far each has been passed on."""

    came: list[int] = field(default_factory=list)
    passed: dict[int, int] = field(default_factory=dict)

    def listen(self) -> None:
        """Record signals from now on, those too that were held back until now."""

        def record(number: int, _frame: FrameType | None) -> None:
            self.came.append(number)

        for number in _PASSED_ON:
            signal.signal(number, record)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)

    def pass_on(self, daemon: int) -> None:
        """Give each rank of the daemon what has come since the last time; one that has just begun gets all of it."""
        if not self.came:
            return
        for rank in _ranks_of(daemon):
            while self.passed.setdefault(rank, 0) < len(self.came):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank, self.came[self.passed[rank]])
                self.passed[rank] += 1


def main() -> NoReturn:
    """Run this node's part of the job, and end as its ranks did."""
    signals = _Signals()
    signals.listen()
    run = current_run()
    if run.files is None or run.attempt_files is None:
        sys.exit("helpers.runtime.mpi.node is started by a run's script.")
    description = read_description(run.files)
    environment = _environment(description, run.attempt_files)
    if os.environ.get("SLURM_NODEID", "0") != "0":
        path = daemon_file(run.attempt_files, os.environ["SLURMD_NODENAME"])
        daemon = _start(["/bin/sh", "-c", _daemon_words(path)], environment)
        _wait(daemon, signals)
        sys.exit(0)  # what became of the ranks the first node tells, which srun is not to end before that
    if shutil.which(MPIRUN) is None:
        print(f"[helpers] there is no mpirun on PATH={os.environ.get('PATH', '')}", file=sys.stderr, flush=True)
        sys.exit(_NOT_FOUND)
    mpirun = _start(_mpirun_words(run.files, run.attempt, description), environment, stderr=subprocess.PIPE)
    said: list[str] = []
    reader = threading.Thread(target=_read, args=(mpirun.stderr, said), daemon=True)
    reader.start()
    code = _wait(mpirun, signals)
    reader.join(timeout=_KILLED_AFTER_S)
    _tell_first_death("".join(said)[-_LAST_WORDS:], description)
    sys.exit(as_shell_code(code))


def _agent(attempt: AttemptFolder) -> tuple[str, str]:
    """Return what ``mpirun`` is to start in the place of ``ssh``, and the ``PATH`` on which it finds that.

    It takes every space for the end of a word: for an interpreter with one in its path a script stands in.
    """
    words, path = [sys.executable, "-P", "-m", "helpers.runtime.mpi.daemon"], os.environ.get("PATH", os.defpath)
    if not re.search(r"\s", sys.executable):
        return " ".join(words), path
    script = attempt.path / "mpi-daemon"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    return script.name, f"{attempt.path}{os.pathsep}{path}"


def _environment(description: Description, attempt: AttemptFolder) -> dict[str, str]:
    """Return the environment of ``mpirun`` and its daemons: it reads the ranks' places from Slurm's variables."""
    agent, path = _agent(attempt)
    environment = {
        **os.environ,
        "PATH": path,
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",  # a daemon that went into the background could not be followed
        "OMPI_MCA_odls_base_sigkill_timeout": str(_KILLED_AFTER_S),
        "PRTE_MCA_plm": "ssh",  # the same in Open MPI 5
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "PRTE_MCA_odls_base_sigkill_timeout": str(_KILLED_AFTER_S),
    }
    if os.getuid() == 0:  # Slurm has let root run this job
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if "SLURM_JOB_ID" not in os.environ:
        return environment
    ranks, nodes = description.processes, description.nodes
    on_each = f"{ranks // nodes}(x{nodes})" if nodes > 1 else str(ranks)
    cpus = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if cpus.isdigit():  # this process has those of all ranks here
        environment["SLURM_CPUS_PER_TASK"] = str(max(1, int(cpus) * nodes // ranks))
    counts = dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), str(ranks))
    return environment | counts | dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), on_each)


def _mpirun_words(run: RunFolder, attempt: int, description: Description) -> list[str]:
    """Return the words that start all ranks, node by node, each with its logs and with stops held back."""
    logs = str(run.logs / str(attempt))
    here = [] if "SLURM_JOB_ID" in os.environ else ["--oversubscribe"]  # Slurm has counted the CPUs
    places = ["-n", str(description.processes), "--map-by", "slot", "--bind-to", "none", *here]
    return [MPIRUN, *places, "/bin/sh", "-c", _RANK, logs, *description.rank_words]


def _start(words: list[str], environment: dict[str, str], *, stderr: int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        preexec_fn=_hold_back,  # noqa: PLW1509 -- one system call, and there is no other thread yet
    )


def _hold_back() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(_PASSED_ON) - {signal.SIGCONT})


def _daemon_words(path: Path) -> str:
    """Wait until ``mpirun`` wants its daemon here; srun ends this process where it never does."""
    while (words := read_json(path)) is None:
        time.sleep(_POLL_S)
    return str(words["line"])


def _wait(daemon: subprocess.Popen[bytes], signals: _Signals) -> int:
    """Pass signals on until the daemon has ended; return its exit code."""
    while daemon.poll() is None:
        signals.pass_on(daemon.pid)
        time.sleep(_POLL_S)
    return daemon.returncode


def _ranks_of(daemon: int) -> list[int]:
    """Return the processes that ``mpirun`` or its daemon has started as ranks, and that hold stops back by now."""
    found: list[int] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(daemon).children(recursive=True):
            with contextlib.suppress(psutil.Error, IndexError):
                is_first = child.ppid() not in found and not is_mpirun_rank(psutil.Process(child.ppid()).environ())
                if is_first and is_mpirun_rank(child.environ()) and _name(child) not in _BEFORE_THE_RANK:
                    found.append(child.pid)
    return found


def _name(process: psutil.Process) -> str:
    return Path(process.cmdline()[0]).name


def _read(stream: IO[bytes] | None, said: list[str]) -> None:
    """Show what ``mpirun`` says, and keep it."""
    for line in stream or ():
        text = line.decode(errors="replace")
        said.append(text)
        print(text, end="", file=sys.stderr, flush=True)


def _tell_first_death(said: str, description: Description) -> None:
    """Say in srun's words which rank ``mpirun`` has seen to fail first (help-orterun.txt of Open MPI)."""
    if match := _BY_WORD.search(said):
        rank, node, words = int(match[1]), match[2], signal.strsignal(int(match[3]))
    elif match := _BY_CODE.search(said):
        rank, words = int(match[1]), f"Exited with exit code {match[2]}"
        node = _node_of(rank, description)
    else:
        return
    print(f"[helpers] error: {node}: task {rank}: {words}", file=sys.stderr, flush=True)


def _node_of(rank: int, description: Description) -> str:
    """Return the name of a rank's node; they are filled one after the other."""
    if description.nodes == 1:
        return platform.node()
    names = nodes_of_job()
    number = rank * description.nodes // description.processes
    return names[number] if number < len(names) else f"node-{number}"


if __name__ == "__main__":
    main()
