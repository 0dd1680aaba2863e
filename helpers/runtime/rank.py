"""Run the submitted function in one rank, and report how it ended.

Started as ``python -m helpers.runtime.rank``, directly under ``srun`` (a shell between them would take the
signals) or by the supervisor of a local run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from helpers.runtime import stop, unfinished
from helpers.runtime.call import load_call, save_exception, save_result
from helpers.runtime.checkpoint_method import serve_checkpoint_method
from helpers.runtime.current import RUN_VARIABLE, Run, current_run
from helpers.runtime.deadline import leave_in_time
from helpers.runtime.description import read_description
from helpers.runtime.outcome import Kind, Outcome, outcome_now
from helpers.runtime.ranks import read_ranks
from helpers.runtime.secrets import load_secrets
from helpers.runtime.sharing import GROUP, share_new_files
from helpers.runtime.source import ignored_python_path, import_as_submitted, read_source, written_into
from helpers.runtime.traceback_text import last_line, traceback_text

if TYPE_CHECKING:
    from helpers.runtime.description import Description
    from helpers.runtime.run_folder import AttemptFolder, RunFolder

_TERMINATED = 128 + signal.SIGTERM
_LAST_SAVE_S = 20  # for a save that was under way when the function failed


def main() -> NoReturn:
    """Run this rank's share of the job and end the process."""
    stop.listen_for_stop()
    if RUN_VARIABLE not in os.environ:
        sys.exit(f"helpers.runtime.rank is started by a job, which sets {RUN_VARIABLE}.")
    os.environ.update(read_ranks().as_environment())
    run = current_run()
    files, attempt_files = _require_files(run)
    description = read_description(files)
    if description.share == GROUP:
        share_new_files()
    os.environ["HELPERS_GPUS"] = str(description.gpus)
    load_secrets(files)
    _import_as_submitted(description, is_main=run.is_main)
    threading.Thread(target=leave_in_time, args=(run, description), name="helpers-deadline", daemon=True).start()
    outcome = _run_function(run, files, attempt_files)
    if run.is_main:
        _say_what_went_into_the_snapshot(description)
    outcome.write(attempt_files.outcome(run.rank))
    _end(outcome.exit_code)


def _import_as_submitted(description: Description, *, is_main: bool) -> None:
    ignored = ignored_python_path(description.sys_path)
    if ignored and is_main:
        print(
            f"[helpers] PYTHONPATH names {', '.join(ignored)}, which was not on the caller's path: "
            "modules are imported as at submission, not from there",
            file=sys.stderr,
        )
    import_as_submitted(read_source(description.source), description.sys_path)


def _say_what_went_into_the_snapshot(description: Description) -> None:
    source = read_source(description.source)
    with contextlib.suppress(OSError):  # it is a remark; the function's ending is what counts
        names = written_into(source)
        if source is not None and names:
            print(
                f"[helpers] written into the snapshot of the code, not into the project: {', '.join(names[:5])} "
                f"in {source.snapshot}; a path from __file__ leads there, one from the current folder does not",
                file=sys.stderr,
            )


def _require_files(run: Run) -> tuple[RunFolder, AttemptFolder]:
    if run.files is None or run.attempt_files is None:
        raise AssertionError("the run variable was checked before")
    return run.files, run.attempt_files


def _run_function(run: Run, files: RunFolder, attempt_files: AttemptFolder) -> Outcome:
    try:
        call = load_call(files)
    except Exception as error:  # noqa: BLE001 -- whatever a user's module raises on import is reported
        return _report_error(run, files, error, kind=Kind.UNLOADED)
    serve_checkpoint_method(call, run)
    threading.Thread(target=_leave_when_cancelled, args=(files,), name="helpers-cancel", daemon=True).start()
    attempt_files.started(run.rank).touch()
    try:
        value = call()
        unfinished.finish_all()
    except stop.LeaveForRequeue:
        return outcome_now(Kind.LEFT)
    except SystemExit as leaving:
        code = _exit_code(leaving)
        if code:
            return outcome_now(Kind.EXITED, error=f"SystemExit: {leaving.code}", exit_code=code)
        value = None
    except BaseException as error:  # noqa: BLE001 -- every ending is reported, KeyboardInterrupt too
        unfinished.finish_some(within_s=_LAST_SAVE_S)
        return _report_error(run, files, error, kind=Kind.RAISED)
    return _report_value(run, files, value)


def _leave_when_cancelled(files: RunFolder) -> None:
    """End at once when the job is cancelled and has no Checkpointer: nothing would use the grace to save."""
    while not stop.wait_for_stop(timeout=3600):
        pass
    if files.cancel_mark.exists() and not files.checkpoints.is_dir():
        print("Cancelled.", file=sys.stderr, flush=True)
        os._exit(_TERMINATED)


def _report_value(run: Run, files: RunFolder, value: Any) -> Outcome:
    try:
        save_result(files, run.rank, value)
    except Exception as error:  # noqa: BLE001 -- pickling runs the user's code
        kind = type(value)
        text = f"a value of type {kind.__module__}.{kind.__qualname__} cannot be pickled: {error}"
        print(f"The function returned, but {text}", file=sys.stderr)
        return outcome_now(Kind.UNSAVED, error=text, exit_code=1)
    return outcome_now(Kind.RETURNED)


def _report_error(run: Run, files: RunFolder, error: BaseException, *, kind: Kind) -> Outcome:
    text = traceback_text(error)
    print(text, end="", file=sys.stderr, flush=True)
    save_exception(files, run.attempt, run.rank, error)
    return outcome_now(kind, error=last_line(error), traceback=text, exit_code=1)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code if isinstance(leaving.code, int) else 1


def _end(exit_code: int) -> NoReturn:
    """End the process now: a forgotten thread or loader worker does not keep the allocation."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    alive = [thread.name for thread in others if not thread.daemon]
    if alive:
        print(f"Still alive when the function ended, and ended with it: {', '.join(alive)}", file=sys.stderr)
    _end_children()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed by the function, or the disk is full; the outcome is written
            stream.flush()
    os._exit(exit_code)


def _end_children() -> None:
    import psutil

    children = psutil.Process().children(recursive=True)
    if not children:
        return
    print(f"Child processes still alive when the function ended: {len(children)}; ended.", file=sys.stderr)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.terminate()
    _, survivors = psutil.wait_procs(children, timeout=2)
    for child in survivors:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


if __name__ == "__main__":
    main()
