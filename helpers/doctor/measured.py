"""Run the steps that need torch, in processes of their own: one that dies, or hangs, hides none of the others.

``python -m helpers.doctor.measured STEP …`` is such a process; it prints one JSON line for each step.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.doctor.step import Step, step_here
from helpers.errors import HelpersError
from helpers.runtime.current import ATTEMPT_VARIABLE, GPUS_VARIABLE, RUN_VARIABLE
from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.rank.place import Ranks
from helpers.submission.clusters.script import with_library

if TYPE_CHECKING:
    from collections.abc import Callable


ALONE = ("device", "multiply", "training")
TOGETHER = "all-reduce"
LADDER = ("device", "multiply", "all-reduce", "training")
_RANKS = 2
_PATIENCE_S = 120.0  # for one step; torch may come from a slow file system
_KEPT = (GPUS_VARIABLE, "CUDA_VISIBLE_DEVICES", "HELPERS_ALLOW_CPU")  # what is looked at is this job's
_DIED_CURE = "python -X faulthandler -m helpers.doctor.measured {0}   shows where; its environment is the first suspect"
_HUNG_CURE = "look for a file system or a driver that does not answer: timeout 20 nvidia-smi; df -h"


@dataclass
class _Process:
    """One process that takes steps, and what has come of it."""

    names: tuple[str, ...]
    process: subprocess.Popen[str]
    errors: Path
    steps: list[Step] = field(default_factory=list)
    hung: bool = False

    @classmethod
    def start(cls, names: tuple[str, ...], folder: Path, environment: dict[str, str]) -> _Process:
        """Start it; what libraries print goes into a file in ``folder``."""
        errors = folder / f"{'-'.join(names)}-{environment.get('RANK', '0')}.err"
        command = [sys.executable, "-P", "-m", "helpers.doctor.measured", *names]
        with errors.open("w") as file:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True
            )
        return cls(names, process, errors)

    def wait(self) -> list[Step]:
        """Return its steps; one in which it has died or hung is a fault, and the last of them."""
        timer = threading.Timer(_PATIENCE_S * len(self.names), self._give_up)
        timer.start()
        try:
            printed, _ = self.process.communicate()
        finally:
            timer.cancel()
        self.steps = [Step(**json.loads(line)) for line in printed.splitlines()]
        if len(self.steps) < len(self.names):
            self.steps.append(self._death(self.names[len(self.steps)]))
        return self.steps

    def _give_up(self) -> None:
        self.hung = True
        self.process.kill()

    def _death(self, name: str) -> Step:
        lines = self.errors.read_text(encoding="utf-8", errors="replace").split("\n")
        words = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
        if self.hung:
            return step_here(name, "fault", f"nothing came of it in {_PATIENCE_S:.0f} s{words}", cure=_HUNG_CURE)
        code = self.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return step_here(name, "fault", f"its process {how}{words}", cure=_DIED_CURE.format(name))


def measure() -> list[Step]:
    """Run all of them on this machine, and return them in the ladder's order."""
    with tempfile.TemporaryDirectory(prefix="helpers-doctor-") as folder:
        found = {step.name: step for step in (*_take_alone(Path(folder)), _take_together(Path(folder)))}
    return [found[name] for name in LADDER]


def _take_alone(folder: Path) -> list[Step]:
    """Take the steps of one process; where it dies in one of them, the others get another process."""
    steps: list[Step] = []
    while len(steps) < len(ALONE):
        steps += _Process.start(ALONE[len(steps) :], folder, _environment()).wait()
    return steps


def _take_together(folder: Path) -> Step:
    """Let two processes find each other as the ranks of a job do, by a file in a run folder."""
    (folder / "attempts" / "0").mkdir(parents=True)
    started = []
    for rank in range(_RANKS):
        place = Ranks(rank=rank, local_rank=rank, world_size=_RANKS, local_world_size=_RANKS).as_environment()
        run = {RUN_VARIABLE: str(folder), ATTEMPT_VARIABLE: "0", "HELPERS_REPORT_NETWORK": "0"}
        started.append(_Process.start((TOGETHER,), folder, {**_environment(), **place, **run}))
    steps = [process.wait()[0] for process in started]
    return next((step for step in steps if step.verdict != "ok"), steps[0])


def _environment() -> dict[str, str]:
    """Return that of this process without what makes it one of several, or part of another run."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return with_library({**without_scheduler_variables(os.environ), **kept})


def _take(name: str) -> Step:
    """Take one step in this process."""
    begin = time.perf_counter()
    try:
        found = _function(name)()
    except HelpersError as error:
        step = step_here(name, "fault", error.message, cure=error.hint)
    except ImportError as error:
        step = step_here(name, "fault", f"torch cannot be imported: {error}", cure='pip install "torch>=2.6"')
    except Exception as error:  # noqa: BLE001 -- whatever a driver or a library says is what is looked for
        words = f"{type(error).__name__}: {str(error).strip() or 'no words'}".splitlines()[0]
        step = step_here(name, "fault", words, cure=_DIED_CURE.format(name))
    else:
        step = step_here(name, "ok", found)
    return replace(step, seconds=round(time.perf_counter() - begin, 2))


def _function(name: str) -> Callable[[], str]:
    from helpers.training import self_test

    functions = {
        "device": self_test.describe_device,
        "multiply": self_test.multiply,
        TOGETHER: self_test.all_reduce,
        "training": self_test.train,
    }
    return functions[name]


def main(names: list[str]) -> None:
    """Take steps in this process, and print each as soon as it is known; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in names:
        print(json.dumps(asdict(_take(name))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
