"""Start and watch the ranks of a run on this machine, as ``srun`` does on a cluster.

Started by the run's script with ``exec``, so it has the script's process id, which is the job's id. A requeue
is the script once more, in the same process.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

import psutil

from helpers.runtime import stop
from helpers.runtime.attempt import attempt
from helpers.runtime.attempt.resumption import ASKED
from helpers.runtime.attempt.total_time import within_total_time
from helpers.runtime.current import ATTEMPT_VARIABLE, LOCAL_ID_VARIABLE, Run, current_run
from helpers.runtime.exit_code import as_shell_code
from helpers.runtime.local.gpus import lease_gpus
from helpers.runtime.mpi.rank import MPIRUN
from helpers.runtime.rank.place import Ranks
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.element import script_of
from helpers.runtime.run.status import Ending, State
from helpers.runtime.usage.report import say_usage

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from helpers.runtime.gpus.lease import Lease
    from helpers.runtime.run.folder import RunFolder

_POLL_S = 0.05
_GRACE_S = 30  # as Slurm's default KillWait
_AFTER_FAILURE_S = 5  # for the other ranks to say what they have to say
_NOTHING_TO_SAVE_S = 1  # without a Checkpointer a stop has nothing to wait for


def main() -> NoReturn:
    """Run one attempt, record how it ended, and go on with the next one where that is asked for."""
    stop.listen_for_stop()
    files = current_run().files
    if files is None:
        sys.exit("helpers.runtime.local.ranks is started by a run's script.")
    description = read_description(files)
    environment = dict(os.environ)  # the next attempt leases anew
    lease = lease_gpus(current_run(), files, description) if description.gpus else None
    if isinstance(lease, attempt.Conclusion):
        attempt.finish(files, current_run().attempt, os.environ[LOCAL_ID_VARIABLE], lease)
        sys.exit(lease.exit_code)
    run = current_run()  # its time counts from here
    ranks = _Ranks.start(files, description, lease)
    exit_code = ranks.wait(run, description)
    if lease is not None:
        lease.give_back()
    conclusion = attempt.conclude(files, description, run.attempt, exit_code=exit_code, end_time=run.end_time)
    conclusion = _without_scheduler(files, conclusion, timed_out=ranks.timed_out)
    conclusion = within_total_time(files, description, conclusion)
    say_usage(files, description, run.attempt, conclusion)
    attempt.finish(files, run.attempt, os.environ[LOCAL_ID_VARIABLE], conclusion)
    if conclusion.state is State.REQUEUED:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until the next attempt listens
        os.execve("/bin/bash", ["bash", str(script_of(files))], environment)  # noqa: S606 -- the script is ours
    sys.exit(conclusion.exit_code)


def _without_scheduler(files: RunFolder, conclusion: attempt.Conclusion, *, timed_out: bool) -> attempt.Conclusion:
    """Judge what only a scheduler would know: here nobody preempts, so a stop was a cancel or a shutdown."""
    if files.cancel_mark.exists() and conclusion.state is not State.COMPLETED:
        ending = Ending(cause="cancelled", detail="the checkpoint stays" if conclusion.step else "")
        return replace(conclusion, state=State.CANCELLED, ending=ending, exit_code=1)
    if timed_out and conclusion.state not in {State.COMPLETED, State.REQUEUED}:
        return replace(conclusion, state=State.TIMEOUT, ending=Ending(cause="timeout"), exit_code=1)
    if conclusion.state is State.REQUEUED and conclusion.ending.cause not in {"timeout", ASKED}:
        saved = "nothing had begun" if conclusion.step is None else f"saved at step {conclusion.step}"
        detail = f"this machine asked it to stop; {saved}"
        ending = replace(conclusion.ending, detail=detail)
        return replace(conclusion, state=State.PREEMPTED, ending=ending, exit_code=1)
    return conclusion


@dataclass
class _Ranks:
    """The processes of one attempt."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    lease: Lease | None = None
    first_failure: int = 0
    timed_out: bool = False
    _kill_at: float | None = None
    _warned: bool = False
    _stopped: bool = False

    @classmethod
    def start(cls, files: RunFolder, description: Description, lease: Lease | None) -> _Ranks:
        logs = files.logs / os.environ[ATTEMPT_VARIABLE]
        kept = [] if lease is None else [lease.descriptor]
        if description.mpi == MPIRUN:
            return cls([_start_mpi_node(description, kept)], lease)
        return cls([_start_rank(rank, description, logs, kept) for rank in range(description.processes)], lease)

    def wait(self, run: Run, description: Description) -> int:
        """Wait for all ranks, pass on requests to stop, and return the first exit code that is not 0."""
        while None in [process.poll() for process in self.processes]:  # any() would stop at the first that runs
            self._note_failure()
            self._keep_time(run, description)
            if self.lease is not None:
                self.lease.note_use()
            if (stop.stop_requested() or _is_cancelled(run)) and not self._stopped:
                self._stopped = True
                self._end_all(_grace_s(run, description))
            if self._kill_at is not None and time.time() > self._kill_at:
                self._kill_all()
            time.sleep(_POLL_S)
        self._note_failure()
        return self.first_failure

    def _note_failure(self) -> None:
        """End the others when one rank has failed, as ``srun --kill-on-bad-exit`` does."""
        codes = [(process.returncode, rank) for rank, process in enumerate(self.processes) if process.returncode]
        if codes and not self.first_failure:
            code, rank = min(codes)  # at the same moment: a signal, which is below 0, is what the others die of
            self.first_failure = as_shell_code(code)
            words = signal.strsignal(-code) if code < 0 else f"Exited with exit code {code}"
            print(f"[helpers] error: {os.uname().nodename}: task {rank}: {words}", file=sys.stderr)  # as srun does
            self._end_all(_AFTER_FAILURE_S)

    def _keep_time(self, run: Run, description: Description) -> None:
        left = run.time_left()
        if left is None:
            return
        number = description.warning_number
        if left <= description.warning_s and number is not None and not self._warned:
            self._warned = True
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(number)
        if left <= 0 and self._kill_at is None:
            self.timed_out = True
            self._end_all(_grace_s(run, description))

    def _end_all(self, grace_s: float) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        self._kill_at = time.time() + grace_s

    def _kill_all(self) -> None:
        """Kill the ranks with what they have started: here no scheduler sweeps up."""
        for process in self.processes:
            if process.poll() is not None:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
            process.kill()


def _grace_s(run: Run, description: Description) -> float:
    """Return how long a stop may take: a program may have something to save, and who knows."""
    saves = run.files is not None and run.files.checkpoints.is_dir()
    return _GRACE_S if saves or description.command else _NOTHING_TO_SAVE_S


def _is_cancelled(run: Run) -> bool:
    return run.files is not None and run.files.cancel_mark.exists()


def _start_rank(rank: int, description: Description, logs: Path, kept: list[int]) -> subprocess.Popen[bytes]:
    ranks = Ranks(
        rank=rank,
        local_rank=rank,
        world_size=description.processes,
        local_world_size=description.processes,
    )
    warning = description.warning_number if description.command else None
    more = [] if warning is None else [warning]
    with _open(logs / f"{rank}.out") as out, _open(logs / f"{rank}.err") as err:
        return subprocess.Popen(
            description.rank_words,
            env={**os.environ, **ranks.as_environment()},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=kept,  # the GPUs stay leased as long as a rank lives, whatever becomes of this process
            preexec_fn=functools.partial(stop.hold_back_stops, *more),  # noqa: PLW1509 -- one system call; the one other thread holds no lock
        )


def _start_mpi_node(description: Description, kept: list[int]) -> subprocess.Popen[bytes]:
    """Start what starts all ranks by ``mpirun``; what it says itself goes where this process's words go."""
    return subprocess.Popen(
        [description.python, "-u", "-P", "-m", "helpers.runtime.mpi.node"],
        stdin=subprocess.DEVNULL,
        pass_fds=kept,
        preexec_fn=stop.hold_back_stops,  # noqa: PLW1509 -- as above
    )


def _open(path: Path) -> BinaryIO:
    return path.open("ab")


if __name__ == "__main__":
    main()
