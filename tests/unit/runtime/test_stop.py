"""A signal sets a flag, in the main process, at once; nothing else happens."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest


def run_python(code: str) -> list[str]:
    """Run a program of its own, since a process listens once and for good; return the lines it printed."""
    preamble = "import os, signal, time, threading\nfrom helpers.runtime import stop\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR2"])
def test_a_stop_signal_sets_the_flag_and_no_more(name: str) -> None:
    """The process goes on until it has saved."""
    printed = run_python(f"""
        stop.listen_for_stop()
        print(stop.stop_requested())
        os.kill(os.getpid(), signal.{name})
        print(stop.wait_for_stop(60), stop.stop_request().signal_name)
    """)
    assert printed == ["False", f"True {name}"]


def test_the_flag_is_set_while_the_main_thread_is_in_a_long_c_call() -> None:
    """Blocked in a collective, a handler in Python runs when the collective is over: too late."""
    printed = run_python("""
        import ctypes
        stop.listen_for_stop()
        seen, (reader, writer) = [], os.pipe()
        def watch():
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append(stop.wait_for_stop(60))
            os.write(writer, b"x")
        threading.Thread(target=watch).start()
        ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)  # which does not end before the flag is set
        print(seen)
    """)
    assert printed == ["[True]"]


def test_a_signal_is_seen_after_asyncio_has_taken_the_pipe() -> None:
    """It takes Python's one wake-up pipe for a handler of its own, and leaves none behind."""
    printed = run_python("""
        import asyncio
        stop.listen_for_stop()
        async def main():
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
        asyncio.run(main())
        os.kill(os.getpid(), signal.SIGUSR2)
        print(stop.wait_for_stop(60), stop.stop_request().signal_name)
    """)
    assert printed == ["True SIGUSR2"]


def test_the_first_signal_counts() -> None:
    """The warning before the time limit is followed by SIGTERM; the cause is the first."""
    printed = run_python("""
        stop.listen_for_stop()
        os.kill(os.getpid(), signal.SIGUSR2)
        stop.wait_for_stop(60)
        first = stop.stop_request()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        print(first.signal_name, stop.stop_request() is first)
    """)
    assert printed == ["SIGUSR2 True"]


def test_sigcont_is_no_request_to_stop() -> None:
    """Slurm sends it before SIGTERM, and when a suspended job goes on."""
    printed = run_python("""
        stop.listen_for_stop()
        os.kill(os.getpid(), signal.SIGCONT)
        print(stop.wait_for_stop(0.3))
    """)
    assert printed == ["False"]


def test_a_forked_child_ends_by_sigterm_and_ignores_our_signal() -> None:
    """Otherwise a loader's worker cannot be terminated, or dies of a signal that is meant for its parent."""
    printed = run_python("""
        stop.listen_for_stop()
        reader, writer = os.pipe()
        asked, ask = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, b"x")
            os.read(asked, 1)
            os.write(writer, b"asked to stop" if stop.stop_requested() else b"not asked")
            time.sleep(600)
            os._exit(0)
        os.read(reader, 1)
        os.kill(child, signal.SIGUSR2)
        os.write(ask, b"x")
        print(os.read(reader, 20).decode())
        print(os.waitpid(child, os.WNOHANG))
        os.kill(child, signal.SIGTERM)
        print(os.WTERMSIG(os.waitpid(child, 0)[1]))
    """)
    assert printed == ["not asked", "(0, 0)", str(int(signal.SIGTERM))]


def test_a_signal_to_a_forked_child_is_none_to_its_parent() -> None:
    """They share the wake-up pipe: written into by the child, it would stop the parent."""
    printed = run_python("""
        stop.listen_for_stop()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            os.write(writer, b"x")
            time.sleep(600)
        os.read(reader, 1)
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        print(stop.wait_for_stop(0.3))
    """)
    assert printed == ["False"]


def test_listening_twice_is_listening_once() -> None:
    """A second pipe would take the signals of the first."""
    printed = run_python("""
        stop.listen_for_stop()
        stop.listen_for_stop()
        os.kill(os.getpid(), signal.SIGTERM)
        print(stop.wait_for_stop(60), threading.active_count())
    """)
    assert printed == ["True 2"]


def test_a_signal_that_comes_while_python_starts_is_not_lost() -> None:
    """It ended the process before it could listen."""
    code = "import time; time.sleep(0.5); from helpers.runtime import stop; stop.listen_for_stop();"
    code += "print(stop.wait_for_stop(60), stop.stop_request().signal_name)"
    from helpers.runtime.stop import hold_back_stops

    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, preexec_fn=hold_back_stops)  # noqa: PLW1509 -- as local.py does
    os.kill(child.pid, signal.SIGUSR2)
    assert (child.communicate(timeout=120)[0], child.returncode) == (b"True SIGUSR2\n", 0)


def test_a_system_call_goes_on_after_the_signal() -> None:
    """A download or a database would fail with EINTR in the middle."""
    printed = run_python("""
        import ctypes
        stop.listen_for_stop()
        reader, writer = os.pipe()
        def ask():
            time.sleep(0.2)  # for the main thread to be in its call
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
            stop.wait_for_stop(60)
            os.write(writer, b"x")
        threading.Thread(target=ask).start()
        print(ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1), stop.stop_requested())
    """)
    assert printed == ["1 True"]
