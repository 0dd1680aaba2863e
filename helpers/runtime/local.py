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

from helpers.runtime import attempt, stop
from helpers.runtime.current import ATTEMPT_VARIABLE, LOCAL_ID_VARIABLE, Run, current_run
from helpers.runtime.description import Description, read_description
from helpers.runtime.element import script_of
from helpers.runtime.ranks import Ranks
from helpers.runtime.resumption import ASKED
from helpers.runtime.status import Ending, State
from helpers.runtime.total_time import within_total_time

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from helpers.runtime.run_folder import RunFolder

_POLL_S = 0.05
_GRACE_S = 30  # as Slurm's default KillWait
_AFTER_FAILURE_S = 5  # for the other ranks to say what they have to say
_NOTHING_TO_SAVE_S = 1  # without a Checkpointer a stop has nothing to wait for
_SIGNAL_BASE = 128


def main() -> NoReturn:
    """Run one attempt, record how it ended, and go on with the next one where that is asked for."""
    stop.listen_for_stop()
    run = current_run()
    if run.files is None:
        sys.exit("helpers.runtime.local is started by a run's script.")
    description = read_description(run.files)
    ranks = _Ranks.start(run.files, description)
    exit_code = ranks.wait(run, description)
    conclusion = attempt.conclude(run.files, description, run.attempt, exit_code=exit_code, end_time=run.end_time)
    conclusion = _without_scheduler(run.files, conclusion, timed_out=ranks.timed_out)
    conclusion = within_total_time(run.files, description, conclusion)
    attempt.finish(run.files, run.attempt, os.environ[LOCAL_ID_VARIABLE], conclusion)
    if conclusion.state is State.REQUEUED:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until the next attempt listens
        os.execv("/bin/bash", ["bash", str(script_of(run.files))])  # noqa: S606 -- the script is ours
    sys.exit(conclusion.exit_code)


def _without_scheduler(files: RunFolder, conclusion: attempt.Conclusion, *, timed_out: bool) -> attempt.Conclusion:
    """Judge what only a scheduler would know: here nobody preempts, so a stop was a cancel or a shutdown."""
    if files.cancel_mark.exists() and conclusion.state is not State.COMPLETED:
        ending = Ending(cause="cancelled", detail="the checkpoint stays" if conclusion.step else "")
        return replace(conclusion, state=State.CANCELLED, ending=ending, exit_code=1)
    if timed_out and conclusion.state not in {State.COMPLETED, State.REQUEUED}:
        return replace(conclusion, state=State.TIMEOUT, ending=Ending(cause="timeout"), exit_code=1)
    if conclusion.state is State.REQUEUED and conclusion.ending.cause not in {"timeout", ASKED}:
        detail = f"this machine asked it to stop; saved at step {conclusion.step}"
        ending = replace(conclusion.ending, detail=detail)
        return replace(conclusion, state=State.PREEMPTED, ending=ending, exit_code=1)
    return conclusion


@dataclass
class _Ranks:
    """The processes of one attempt."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    first_failure: int = 0
    timed_out: bool = False
    _kill_at: float | None = None
    _warned: bool = False
    _stopped: bool = False

    @classmethod
    def start(cls, files: RunFolder, description: Description) -> _Ranks:
        logs = files.logs / os.environ[ATTEMPT_VARIABLE]
        return cls([_start_rank(rank, description, logs) for rank in range(description.processes)])

    def wait(self, run: Run, description: Description) -> int:
        """Wait for all ranks, pass on requests to stop, and return the first exit code that is not 0."""
        while None in [process.poll() for process in self.processes]:  # any() would stop at the first that runs
            self._note_failure()
            self._keep_time(run, description)
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
            self.first_failure = _as_shell_code(code)
            words = signal.strsignal(-code) if code < 0 else f"Exited with exit code {code}"
            print(f"[helpers] error: {os.uname().nodename}: task {rank}: {words}", file=sys.stderr)  # as srun does
            self._end_all(_AFTER_FAILURE_S)

    def _keep_time(self, run: Run, description: Description) -> None:
        left = run.time_left()
        if left is None:
            return
        if left <= description.warning_s and description.warning_signal and not self._warned:
            self._warned = True
            number = getattr(signal, description.warning_signal, stop.WARNING_SIGNAL)
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


def _start_rank(rank: int, description: Description, logs: Path) -> subprocess.Popen[bytes]:
    ranks = Ranks(
        rank=rank,
        local_rank=rank,
        world_size=description.processes,
        local_world_size=description.processes,
    )
    more = [getattr(signal, description.warning_signal)] if description.command and description.warning_signal else []
    with _open(logs / f"{rank}.out") as out, _open(logs / f"{rank}.err") as err:
        return subprocess.Popen(
            [description.python, "-u", "-P", "-m", description.rank_module],
            env={**os.environ, **ranks.as_environment()},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=functools.partial(stop.hold_back_stops, *more),  # noqa: PLW1509 -- one system call; the one other thread holds no lock
        )


def _open(path: Path) -> BinaryIO:
    return path.open("ab")


def _as_shell_code(code: int) -> int:
    """Give a death by signal n as a shell gives it: 128 + n."""
    return _SIGNAL_BASE - code if code < 0 else code


if __name__ == "__main__":
    main()
