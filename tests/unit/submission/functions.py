"""Functions that the tests submit; importable in a job, without pytest."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from helpers import current_run

MIB = 2**20


def add(a: float, b: float = 0) -> float:
    """Return the sum."""
    print("adding")
    return a + b


def echo(value: Any) -> Any:
    return value


def read_variable(variable: str) -> str | None:
    """Return a variable of the job's environment."""
    return os.environ.get(variable)


def where_am_i() -> dict[str, Any]:
    """Return what a function can know of its place."""
    run = current_run()
    return {
        "rank": run.rank,
        "local_rank": run.local_rank,
        "world_size": run.world_size,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": os.environ.get("SLURM_STEP_GPUS") or os.environ.get("SLURM_JOB_GPUS"),
        "node": os.environ.get("SLURMD_NODENAME"),
        "partition": os.environ.get("SLURM_JOB_PARTITION"),
        "python": sys.executable,
        "folder": str(Path.cwd()),
    }


def meet(folder: str, who: str, *, others: int) -> dict[str, Any]:
    """Return where this is, once ``others`` jobs have come to ``folder``."""
    Path(folder, who).touch()
    deadline = time.monotonic() + 240
    while len(list(Path(folder).iterdir())) < others:
        if time.monotonic() > deadline:
            raise TimeoutError("the others did not come")
        time.sleep(0.1)
    return where_am_i()


def count_cpus() -> tuple[int, str | None, str | None]:
    """Return how many CPUs this process may use, what Slurm says of it, and how many threads libraries start."""
    return len(os.sched_getaffinity(0)), os.environ.get("SLURM_CPUS_PER_TASK"), os.environ.get("OMP_NUM_THREADS")


def submit_inside(a: int) -> dict[str, Any]:
    """Submit a job of another shape from inside a job, and wait for it."""
    from helpers import submit

    before = dict(os.environ)
    inner = submit(describe_inner, a, cpus=2, mem="300M", time=5)
    value = inner.result(120)
    return {"id": inner.id, "outer_id": os.environ["SLURM_JOB_ID"], "unchanged": before == dict(os.environ), **value}


def describe_inner(a: int) -> dict[str, Any]:
    """Return what the inner job was given."""
    return {
        "value": a + 1,
        "inner_id": os.environ["SLURM_JOB_ID"],
        "cpus": os.environ["SLURM_CPUS_PER_TASK"],
        "mem": os.environ["SLURM_MEM_PER_NODE"],
    }


def print_and_raise() -> NoReturn:
    """Raise two calls deep."""
    print("before", flush=True)
    raise_here()


def raise_here() -> NoReturn:
    """Raise."""
    raise ValueError("boom-123")


class TwoArguments(Exception):
    """An exception that pickles well and cannot be loaded."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def raise_two_arguments() -> NoReturn:
    """Raise what cannot be rebuilt."""
    raise TwoArguments(7, "bad")


def raise_with_a_note() -> NoReturn:
    """Raise an exception that carries more than its message, in characters that break careless formats."""
    error = ValueError("boom \udce9 \u2028 end")
    error.add_note("a note below")
    raise error


def return_a_lock() -> Any:
    """Return what cannot be pickled."""
    return threading.Lock()


def leave_by_exit(code: object) -> NoReturn:
    """Leave as scripts do."""
    sys.exit(code)  # type: ignore[arg-type]


def leave_at_once(code: int) -> NoReturn:
    """Leave without Python's clean-up, as a crashing library does."""
    os._exit(code)


def kill_self(number: int = signal.SIGKILL) -> NoReturn:
    """Die of a signal."""
    os.kill(os.getpid(), number)
    time.sleep(600)
    raise AssertionError


def fill_memory(mib: int) -> int:
    """Use so much memory that the kernel has to give it."""
    return len(b"x" * (mib * MIB))


def sleep(seconds: float) -> str:
    """Take time."""
    time.sleep(seconds)
    return "slept"


def exit_on_sigterm() -> NoReturn:
    """Do what many scripts do when they are asked to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    while True:
        time.sleep(0.1)


def fail_in_rank_one(how: str) -> str:
    """Fail in one rank while the other has much to do."""
    if current_run().rank == 1:
        if how == "raise":
            raise ValueError("rank one is out")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
    return "never"


def notice_a_lost_peer(folder: str) -> str:
    """Be killed in rank 1, and raise in rank 0 because of it, as a collective does."""
    pid_file = Path(folder, "pid")
    if current_run().rank == 1:
        pid_file.write_text(str(os.getpid()))
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    while not pid_file.exists() or Path(f"/proc/{pid_file.read_text() or 0}/stat").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    raise RuntimeError("Connection closed by peer")


def leave_a_child_and_a_thread() -> int:
    """Return while a thread and a stubborn child are still there."""
    threading.Thread(target=time.sleep, args=(600,), name="forgotten").start()
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    if child.stdout is not None:
        child.stdout.readline()
    (current_run().folder or Path()).joinpath("child").write_text(str(child.pid))
    return 42


def terminate_a_forked_child() -> int | None:
    """Fork a child that loops, ask it to end, and return how it did."""
    import multiprocessing

    child = multiprocessing.get_context("fork").Process(target=loop)
    child.start()
    time.sleep(0.2)
    child.terminate()
    child.join(5)
    return child.exitcode


def loop() -> NoReturn:
    """Never end."""
    while True:
        time.sleep(0.05)


def close_stdout() -> int:
    """Return after having closed what others want to flush."""
    sys.stdout.close()
    return 42


def save_and_leave(total: int) -> int:
    """Do one step an attempt, as a training that is stopped after each of them, without torch."""
    from helpers.runtime.stop import LeaveForRequeue, wait_for_stop

    run = current_run()
    if run.files is None:
        raise AssertionError("runs in a job only")
    run.files.checkpoints.mkdir(exist_ok=True)
    done = run.attempt + 1
    (run.files.checkpoints / f"step-{done:08}").mkdir()
    if done == total:
        return done
    wait_for_stop(120)
    run.ask_for_requeue(step=done)
    raise LeaveForRequeue


def odd_only(number: int) -> int:
    """Fail for even numbers."""
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


def span(number: int, folder: str) -> tuple[int, float, float]:
    """Leave a trace that can be left once, and tell when this ran."""
    begin = time.time()
    (Path(folder) / f"ran-{number}").touch(exist_ok=False)
    time.sleep(0.3)
    return number, begin, time.time()


def wait_for_file(folder: str, number: int) -> int:
    """Say that it runs, and wait for the word to go."""
    (Path(folder) / f"waits-{number}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.1)
    return number
