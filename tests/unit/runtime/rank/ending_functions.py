"""Functions that leave something behind, or leave in odd ways; importable in a job, without pytest."""

import atexit
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from helpers.runtime import current, stop
from helpers.runtime.rank import ending

KEPT: list[Any] = []


class Stubborn:
    """An object whose clean-up never ends."""

    def __del__(self) -> None:
        while True:
            time.sleep(1)


def shorten_all() -> None:
    """Give each part of the end one second."""
    ending.THREADS_S = ending.HANDLERS_S = ending.HURRIED_S = ending._INTERPRETER_S = 1


def leave_open(folder: str, code: int = 0) -> None:
    """Leave a file open, and a handler registered that writes another."""
    file = Path(folder, "open").open("w", encoding="utf-8")  # noqa: SIM115 -- left open is what is tried
    KEPT.append(file)
    file.write("all of it")
    atexit.register(Path(folder, "handled").write_text, "yes")
    if code:
        sys.exit(code)


def leave_a_slow_and_a_broken_handler(folder: str) -> int:
    """Register handlers; the last to be registered is the first to run."""
    shorten_all()
    atexit.register(Path(folder, "handled").write_text, "yes")
    atexit.register(divmod, 1, 0)
    atexit.register(time.sleep, 600)
    return 42


def leave_a_thread_and_a_handler(folder: str) -> int:
    """Leave a thread that never ends."""
    shorten_all()
    atexit.register(Path(folder, "handled").write_text, "yes")
    threading.Thread(target=time.sleep, args=(600,), name="forgotten").start()
    return 42


def leave_an_object_that_never_goes() -> int:
    """Leave what the interpreter hangs on when no Python can run any more."""
    shorten_all()
    KEPT.append(Stubborn())
    return 42


def leave_a_pool() -> int:
    """Leave workers that their pool ends itself, as Python's end has it do."""
    import multiprocessing

    KEPT.append(multiprocessing.get_context("fork").Pool(2))
    return int(KEPT[-1].apply(int, (42,)))


def leave_open_when_asked_to_stop(folder: str) -> None:
    """The same, with little time left."""
    stop.request_stop("SIGTERM")
    leave_open(folder)


def leave_an_executor() -> int:
    """Leave a thread that ends when it is told to, as Python does at its end."""
    from concurrent.futures import ThreadPoolExecutor

    KEPT.append(ThreadPoolExecutor(1))
    return int(KEPT[-1].submit(int, 42).result())


def be_killed_beside_a_child(how: str) -> NoReturn:
    """Fork a child that comes out of this function, and be killed when it has ended."""
    child = os.fork()
    if child == 0:
        if how == "raises":
            raise ValueError("of the child")
        sys.exit(0)
    os.waitpid(child, 0)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def wait_for_a_child_that_exits(code: int) -> int:
    """Return the exit code of a forked child that leaves by ``sys.exit``."""
    child = os.fork()
    if child == 0:
        sys.exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def vanish_in_rank(rank: int) -> str:
    """Leave one rank with exit code 0 and without a word, while the others have much to do."""
    if current.current_run().rank == rank:
        os._exit(0)
    time.sleep(600)
    return "never"


def return_early_in_rank_one() -> int:
    """Return at once in one rank, while the other still works."""
    rank = current.current_run().rank
    time.sleep(0 if rank == 1 else 8)
    return rank


def deny_all() -> int:
    """Leave a umask that denies everything, to the owner too."""
    os.umask(0o777)
    return 42


def return_more_than_the_disk_takes() -> bytes:
    """Return a value of a megabyte where files may have half of one: the system refuses as a full disk does."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, 2**19))
    return bytes(2**20)


def leave_with(code: int) -> NoReturn:
    """Leave as scripts do."""
    sys.exit(code)
