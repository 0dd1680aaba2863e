"""Run a submitted program in one rank, pass signals on to it, and report how it ended.

Started as ``python -m helpers.runtime.rank.command``, directly under ``srun`` or by the supervisor of a local run. It
stands between them and the program because Slurm signals only its direct child (with ``ProctrackType=cgroup``)
and keeps no record of each rank's end. Where a signal ended the program, it ends by the same signal, so that
``srun`` and the kernel's memory limit say of it what they would have said of the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import psutil

from helpers.runtime import stop
from helpers.runtime.current import GPUS_VARIABLE, RUN_VARIABLE, Run, current_run
from helpers.runtime.environment import set_where_unset
from helpers.runtime.exit_code import SIGNAL_BASE, as_shell_code
from helpers.runtime.mpi.rank import as_srun_would
from helpers.runtime.rank.call import save_result
from helpers.runtime.rank.cpu_quota import read_quota
from helpers.runtime.rank.ending import flush_output
from helpers.runtime.rank.leftovers import end_all
from helpers.runtime.rank.meeting_point import hold_meeting_point
from helpers.runtime.rank.place import Ranks, read_ranks
from helpers.runtime.rank.program_source import command_as_submitted
from helpers.runtime.rank.source import read_source, say_what_was_written
from helpers.runtime.rank.thread_count import available_cpus, limit_threads
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.outcome import Kind, Outcome, outcome_now
from helpers.runtime.run.secrets import load_secrets
from helpers.runtime.run.sharing import GROUP, share_new_files
from helpers.runtime.usage.meter import UsageMeter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from helpers.runtime.run.folder import RunFolder

REQUEUE_CODE = os.EX_TEMPFAIL
"""The exit code with which a program says: my state is saved, run me again (75; ``sysexits.h``: "try again")."""

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell gives them
_LONGEST_LINE = 200
_LAUNCHERS = frozenset({"torchrun", "torch.distributed.run", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun"})
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


class Command:
    """A program and its arguments, as a function without parameters.

    Args:
        words: The program and its arguments, as they are given to the system: no shell reads them.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self.__name__ = Path(self.words[0]).name

    def __call__(self) -> int:
        """Run the program in this process's place and time, for ``cluster="inline"``.

        Raises:
            subprocess.CalledProcessError: If its exit code is not 0.
        """
        return subprocess.run(self.words, check=True).returncode

    def __str__(self) -> str:
        return shlex.join(self.words)


@dataclass
class _Program:
    """The program's process, and the signals that came for it."""

    process: subprocess.Popen[bytes] | None = None
    early: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)

    def listen(self, stop_signals: Sequence[int]) -> None:
        """Pass signals on from now on; those that mean "stop" are recorded too."""

        def pass_on(number: int, _frame: FrameType | None) -> None:
            if number in stop_signals:
                self.stops.append(number)
                stop.request_stop(signal.Signals(number).name)
            if self.process is None:
                self.early.append(number)
            else:
                self.process.send_signal(number)  # nothing, where it has ended

        for number in _PASSED_ON:
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)

    def run(self, words: Sequence[str], environment: dict[str, str]) -> int:
        """Start the program and wait for its end; return its exit code, or minus the signal that ended it."""
        self.process = subprocess.Popen(words, env=environment)
        while self.early:
            self.process.send_signal(self.early.pop(0))
        return self.process.wait()


def main() -> NoReturn:
    """Run this rank's program and end as it did."""
    program = _Program()
    if RUN_VARIABLE not in os.environ:
        sys.exit(f"helpers.runtime.rank.command is started by a job, which sets {RUN_VARIABLE}.")
    run, ranks = current_run(), read_ranks()
    if run.files is None or run.attempt_files is None:
        raise AssertionError("the run variable was checked before")
    description = read_description(run.files)
    program.listen(_stop_signals(description))
    hold_meeting_point(ranks.rank)
    _adopt_orphans()
    load_secrets(run.files)
    set_where_unset(description.variables)
    if description.share == GROUP:
        share_new_files()
    if program.stops and description.requeue is not False:
        why = f"asked to stop by {signal.Signals(program.stops[0]).name} before the program was started"
        outcome_now(Kind.BROKEN_OFF, error=why).write(run.attempt_files.outcome(ranks.rank))
        sys.exit(SIGNAL_BASE + program.stops[0])
    words = command_as_submitted(description)
    run.attempt_files.started(ranks.rank).touch()
    meter = UsageMeter(run.attempt_files.usage(ranks.rank), with_gpus=description.gpus > 0 and ranks.local_rank == 0)
    meter.start()
    try:
        code = program.run([*description.inside, *words], _environment(ranks, description, words))
    except OSError as error:
        outcome = _no_program(words[0], error)
    else:
        _end_leftovers()
        meter.finish()
        if ranks.rank == 0:
            say_what_was_written(read_source(description.source))
        flush_output()
        if code < 0 and not program.stops:
            _end_by_signal(-code)
        outcome = _judge(code, run, description, stopped=bool(program.stops))
        if outcome.kind is Kind.RETURNED:
            _save(run.files, ranks.rank)
    outcome.write(run.attempt_files.outcome(ranks.rank))
    sys.exit(outcome.exit_code)


def _stop_signals(description: Description) -> tuple[int, ...]:
    """Return what asks the program to stop: SIGTERM, and the warning where one was asked for."""
    asked = description.warning_number
    return (signal.SIGTERM,) if asked is None else (signal.SIGTERM, asked)


def _environment(ranks: Ranks, description: Description, words: Sequence[str]) -> dict[str, str]:
    """Return the program's environment.

    torch's variables are set only where several processes share a node: a lone program with ``RANK`` set and no
    ``MASTER_ADDR`` would be taken for one of many, and torchrun sets them for its own workers. The number of
    threads is left to a launcher too: how many processes will share the CPUs, only it knows.
    """
    environment = {**os.environ, **as_srun_would(os.environ), GPUS_VARIABLE: str(description.gpus)}
    places = ranks.as_environment()
    if not any(Path(word).name in _LAUNCHERS for word in words):
        environment |= limit_threads(environment | places, usable_cpus=len(available_cpus()), quota=read_quota())
    if description.processes > description.nodes:
        return environment | places
    return {name: value for name, value in environment.items() if name not in places}


def _judge(code: int, run: Run, description: Description, *, stopped: bool) -> Outcome:
    """Say what the program's end means; where it is to run again, leave the mark."""
    shell_code = as_shell_code(code)
    if code == 0:
        return outcome_now(Kind.RETURNED)
    asks = code == REQUEUE_CODE or (stopped and description.requeue is True)
    if asks and description.requeue is not False:
        run.ask_for_requeue(step=run.attempt + 1)
        return outcome_now(Kind.LEFT)
    words = f"it ended with exit code {shell_code}"
    if stopped:
        return outcome_now(Kind.STOPPED, error=words)
    if code == REQUEUE_CODE:
        words += ", which asks for a requeue, and was submitted with requeue=False"
        return outcome_now(Kind.EXITED, error=words, exit_code=code)
    return outcome_now(Kind.EXITED, exit_code=shell_code)


def _save(files: RunFolder, rank: int) -> None:
    """Save the result of a program that succeeded: 0."""
    save_result(files, rank, 0)


def _no_program(name: str, error: OSError) -> Outcome:
    code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    words = f"{name[:_LONGEST_LINE]} cannot be started on {os.uname().nodename}: {error.strerror}"
    print(f"[helpers] {words} (PATH={os.environ.get('PATH', '')})", file=sys.stderr, flush=True)
    return outcome_now(Kind.EXITED, error=words, exit_code=code)


def _adopt_orphans() -> None:
    """Become the parent of what the program leaves behind, so that it can be found (Linux: prctl(2))."""
    with contextlib.suppress(OSError, AttributeError):  # elsewhere it stays
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_leftovers() -> None:
    """End what the program has left behind: it would hold the allocation."""
    children = psutil.Process().children(recursive=True)
    if not children:
        return
    names = []
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(child.name())
    print(f"[helpers] still alive when the program ended, and ended with it: {', '.join(names)}", file=sys.stderr)
    end_all(children)


def _end_by_signal(number: int) -> NoReturn:
    """End as the program did; a core of this process would tell nothing."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(SIGNAL_BASE + number)


if __name__ == "__main__":
    main()
