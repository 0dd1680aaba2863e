"""Break a training function on purpose, and see whether it ends as if nothing had happened.

For a project's own tests::

    from helpers.testing import faults

    def test_training_survives_kills(tmp_path):
        faults.kill(train, epochs=2, times=5, folder=tmp_path).check()

Each function runs the training once undisturbed, in a process and a run folder of its own, then again and again
with the fault; a disturbed run is started anew, as a requeued job would be, until it returns. It has survived if
it returns what the undisturbed one did. The training function must be importable (a module's, not a notebook's),
take and return what can be pickled, and draw its random numbers from a seed, or ``same=`` must say what is equal.
"""

from __future__ import annotations

import multiprocessing
import operator
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

_ATTEMPTS = 3  # a disturbed run that has not returned by then makes no progress
_PATIENCE_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One disturbed run.

    Args:
        fault: What was done to it, and when.
        survived: Whether it returned what the undisturbed run did.
        detail: What came instead; empty where it survived.
        folder: The run folder, with its checkpoints.
    """

    fault: str
    survived: bool
    detail: str
    folder: Path


@dataclass(frozen=True)
class Report:
    """What became of all disturbed runs."""

    trials: list[Trial] = field(default_factory=list)

    def check(self) -> None:
        """Raise if one did not survive.

        Raises:
            AssertionError: With every fault that was not survived.
        """
        lost = [f"{trial.fault}: {trial.detail} ({trial.folder})" for trial in self.trials if not trial.survived]
        if lost:
            raise AssertionError(f"{len(lost)} of {len(self.trials)} faults were not survived:\n" + "\n".join(lost))


def kill(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    times: int = 10,
    seed: int = 0,
    same: Callable[[Any, Any], bool] = operator.eq,
    **kwargs: Any,
) -> Report:
    """Send SIGKILL at random moments of the training, as a lost node or the memory limit does.

    Args:
        function: The training.
        args: Given to it.
        folder: Where the runs' folders go.
        times: Disturbed runs.
        seed: Of the moments.
        same: Says whether two results are equal.
        kwargs: Given to it.
    """
    bench = _Bench(function, args, kwargs, folder, same)
    return bench.disturb(signal.SIGKILL, times, random.Random(seed))  # noqa: S311 -- moments are no secret


def stop(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    times: int = 10,
    seed: int = 0,
    same: Callable[[Any, Any], bool] = operator.eq,
    **kwargs: Any,
) -> Report:
    """Send SIGTERM at random moments of the training, as a preemption does; the arguments are those of :func:`kill`."""
    bench = _Bench(function, args, kwargs, folder, same)
    return bench.disturb(signal.SIGTERM, times, random.Random(seed))  # noqa: S311


def flip_bits(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    times: int = 10,
    seed: int = 0,
    same: Callable[[Any, Any], bool] = operator.eq,
    **kwargs: Any,
) -> Report:
    """Flip a bit in the newest checkpoint of a finished run and run it again; see :func:`kill`.

    The run falls back to an older checkpoint, of which there must be one: let it save at least twice.
    """
    bench = _Bench(function, args, kwargs, folder, same)
    chance = random.Random(seed)  # noqa: S311
    trials = []
    for number in range(times):
        run = bench.new_run(f"flip-{number}")
        _end(bench.start(run))
        newest = max(run.glob("checkpoints/step-*"), default=None)
        if newest is None:
            raise AssertionError(f"The training has saved no checkpoint in {run}; let it save at least twice.")
        file = chance.choice([path for path in newest.iterdir() if path.is_file()])
        data, bit = bytearray(file.read_bytes()), chance.randrange(8 * file.stat().st_size)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        (run / _RESULT).unlink(missing_ok=True)
        trials.append(bench.finish(run, f"bit {bit} of {file.parent.name}/{file.name} flipped"))
    return Report(trials)


def fill_disk(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    same: Callable[[Any, Any], bool] = operator.eq,
    **kwargs: Any,
) -> Report:
    """Let every second checkpoint meet a full disk; training must go on. See :func:`kill`."""
    bench = _Bench(function, args, kwargs, folder, same)
    run = bench.new_run("full-disk")
    _end(bench.start(run, full_disk=True))
    return Report([bench.finish(run, "a full disk for every second checkpoint")])


_CALLED = "called"
_RESULT = "result.pkl"


class _Bench:
    """Runs one function in processes of their own."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        folder: Path,
        same: Callable[[Any, Any], bool],
    ) -> None:
        self._call = (function, args, kwargs)
        self._folder = folder
        self._same = same
        run = self.new_run("undisturbed")
        _end(self.start(run))
        if not (run / _RESULT).exists():
            raise AssertionError(f"The training does not return by itself; see what it has printed, and {run}.")
        self._lasts_s = (run / _RESULT).stat().st_mtime - (run / _CALLED).stat().st_mtime
        self._expected = _read(run / _RESULT)

    def new_run(self, name: str) -> Path:
        """Return an empty run folder."""
        run = self._folder / name
        (run / "logs").mkdir(parents=True)
        return run

    def start(self, run: Path, *, full_disk: bool = False) -> BaseProcess:
        """Start the next attempt of a run."""
        process = multiprocessing.get_context("spawn").Process(target=_train, args=(self._call, str(run), full_disk))
        process.start()
        return process

    def disturb(self, number: signal.Signals, times: int, chance: random.Random) -> Report:
        """Send a signal at a random moment of each run."""
        trials = []
        for turn in range(times):
            run = self.new_run(f"{number.name.lower()}-{turn}")
            process = self.start(run)
            moment_s = chance.uniform(0, self._lasts_s)
            _await_call(process, run)
            process.join(moment_s)
            if process.is_alive() and process.pid:
                os.kill(process.pid, number)
            _end(process)
            trials.append(self.finish(run, f"{number.name} {moment_s:.2f} s after the call"))
        return Report(trials)

    def finish(self, run: Path, fault: str) -> Trial:
        """Start a run anew until it returns, and compare."""
        code: int | None = 0
        for _ in range(_ATTEMPTS):
            if (run / _RESULT).exists():
                break
            process = self.start(run)
            _end(process)
            code = process.exitcode
        if not (run / _RESULT).exists():
            return Trial(fault=fault, survived=False, detail=f"it never returned (exit code {code})", folder=run)
        value = _read(run / _RESULT)
        survived = bool(self._same(value, self._expected))
        detail = "" if survived else f"it returned {value!r:.80} instead of {self._expected!r:.80}"
        return Trial(fault=fault, survived=survived, detail=detail, folder=run)


def _await_call(process: BaseProcess, run: Path) -> None:
    """Wait until the training has been called: while Python starts there is nothing to disturb."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (run / _CALLED).exists() and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)


def _end(process: BaseProcess) -> None:
    """Wait for an attempt; one that outlasts the patience is killed, so that none runs beside the next."""
    process.join(_PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join()


def _train(call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]], folder: str, full_disk: bool) -> NoReturn:
    """Be the one process of an attempt, as the runner of a job is."""
    from helpers.runtime import unfinished
    from helpers.runtime.run.folder import RunFolder
    from helpers.runtime.stop import LeaveForRequeue, listen_for_stop

    listen_for_stop()
    os.environ |= {"HELPERS_RUN": folder, "HELPERS_ATTEMPT": str(RunFolder(Path(folder)).begin_attempt())}
    if full_disk:
        _fill_now_and_then()
    function, args, kwargs = call
    (Path(folder) / _CALLED).touch()
    try:
        value = function(*args, **kwargs)
        unfinished.finish_all()
    except LeaveForRequeue:
        os._exit(0)
    _write(Path(folder) / _RESULT, value)
    os._exit(0)


def _fill_now_and_then() -> None:
    import errno

    from helpers.training.checkpoints import saving

    write, saves = vars(saving)["write_tensors"], iter(range(10**9))

    def write_or_fail(path: Path, tensors: Any) -> Any:
        if next(saves) % 2 == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, tensors)

    vars(saving)["write_tensors"] = write_or_fail


def _write(path: Path, value: Any) -> None:
    import pickle

    from helpers.runtime.files import write_whole

    write_whole(path, pickle.dumps(value))


def _read(path: Path) -> Any:
    import pickle

    return pickle.loads(path.read_bytes())
