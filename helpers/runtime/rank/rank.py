"""Run the submitted function in one rank, and report how it ended.

Started as ``python -m helpers.runtime.rank.rank``, directly under ``srun`` (a shell between them would take the
signals) or by the supervisor of a local run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from helpers.runtime import stop, unfinished
from helpers.runtime.attempt.aftermath import follows_from_stop
from helpers.runtime.current import GPUS_VARIABLE, RUN_VARIABLE, Run, current_run
from helpers.runtime.environment import set_where_unset
from helpers.runtime.exit_code import SIGNAL_BASE
from helpers.runtime.mpi import rank as mpi
from helpers.runtime.rank.call import Call, NotWritten, load_call, save_exception, save_result
from helpers.runtime.rank.checkpoint_method import serve_checkpoint_method
from helpers.runtime.rank.cpu_quota import read_quota
from helpers.runtime.rank.deadline import leave_in_time
from helpers.runtime.rank.ending import (
    end_as_python_does,
    end_forked_child,
    end_now,
    exit_code_of,
    keep_children_until_the_end,
)
from helpers.runtime.rank.meeting_point import hold_meeting_point
from helpers.runtime.rank.place import read_ranks
from helpers.runtime.rank.silent_exit import refuse_silent_exit
from helpers.runtime.rank.source import ignored_python_path, import_as_submitted, read_source, say_what_was_written
from helpers.runtime.rank.thread_count import available_cpus, limit_threads
from helpers.runtime.rank.traceback_text import last_line, traceback_text
from helpers.runtime.run.description import read_description
from helpers.runtime.run.outcome import NOT_WRITTEN, Kind, Outcome, outcome_now
from helpers.runtime.run.secrets import load_secrets
from helpers.runtime.run.sharing import GROUP, current_umask, share_new_files
from helpers.runtime.usage.meter import UsageMeter

if TYPE_CHECKING:
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import AttemptFolder, RunFolder

_TERMINATED = SIGNAL_BASE + signal.SIGTERM
_LAST_SAVE_S = 20  # for a save that was under way when the function failed


def main() -> NoReturn:
    """Run this rank's share of the job and end the process."""
    stop.listen_for_stop()
    if RUN_VARIABLE not in os.environ:
        sys.exit(f"helpers.runtime.rank.rank is started by a job, which sets {RUN_VARIABLE}.")
    os.environ.update(read_ranks().as_environment() | mpi.as_srun_would(os.environ))
    run = current_run()
    hold_meeting_point(run.rank)
    files, attempt_files = _require_files(run)
    description = read_description(files)
    if description.share == GROUP:
        share_new_files()
    os.environ[GPUS_VARIABLE] = str(description.gpus)
    load_secrets(files)
    set_where_unset(description.variables)
    os.environ.update(limit_threads(os.environ, usable_cpus=len(available_cpus()), quota=read_quota()))
    _import_as_submitted(description, is_main=run.is_main)
    threading.Thread(target=leave_in_time, args=(run, description), name="helpers-deadline", daemon=True).start()
    meter = UsageMeter(attempt_files.usage(run.rank), with_gpus=description.gpus > 0 and run.local_rank == 0)
    meter.start()
    keep_children_until_the_end()
    outcome = _run_function(run, files, attempt_files, may_break_off=description.requeue is not False)
    if run.is_main:
        say_what_was_written(read_source(description.source))
    meter.finish()
    try:
        outcome.write(attempt_files.outcome(run.rank))
    except OSError as error:
        print(f"[helpers] how the function ended cannot be told: {error}", file=sys.stderr)
        end_as_python_does(outcome.exit_code or 1)
    if outcome.exit_code == 0:
        mpi.finalize()
    end_as_python_does(outcome.exit_code)


def _import_as_submitted(description: Description, *, is_main: bool) -> None:
    ignored = [] if description.own_packages else ignored_python_path(description.sys_path)
    if ignored and is_main:
        print(
            f"[helpers] PYTHONPATH names {', '.join(ignored)}, which was not on the caller's path: "
            "modules are imported as at submission, not from there",
            file=sys.stderr,
        )
    before = sys.path if description.own_packages else []
    import_as_submitted(read_source(description.source), [*description.sys_path, *before])


def _require_files(run: Run) -> tuple[RunFolder, AttemptFolder]:
    if run.files is None or run.attempt_files is None:
        raise AssertionError("the run variable was checked before")
    return run.files, run.attempt_files


def _run_function(  # noqa: PLR0911 -- one return for each way to end
    run: Run, files: RunFolder, attempt_files: AttemptFolder, *, may_break_off: bool
) -> Outcome:
    owner = os.getpid()
    refuse_silent_exit(attempt_files.outcome(run.rank))
    try:
        call = load_call(files)
    except BaseException as error:  # noqa: BLE001 -- whatever a user's module raises on import is reported
        end_forked_child(owner, error)
        return _report_error(run, files, error, kind=Kind.UNLOADED)
    if stop.stop_requested() and may_break_off:
        return _break_off("before the function was called")
    serve_checkpoint_method(call, run)
    threading.Thread(target=_leave_when_cancelled, args=(files,), name="helpers-cancel", daemon=True).start()
    attempt_files.started(run.rank).touch()
    try:
        value = _in_one_process(call)
        unfinished.finish_all()
    except stop.LeaveForRequeue:
        return outcome_now(Kind.LEFT)
    except SystemExit as leaving:
        code = exit_code_of(leaving)
        if code:
            return outcome_now(Kind.EXITED, error=f"SystemExit: {leaving.code}", exit_code=code)
        if stop.stop_requested() and type(leaving) is not SystemExit:  # Lightning's SIGTERMException: not at its end
            return _break_off(f"which ended the function ({type(leaving).__name__})")
        value = None
    except BaseException as error:  # noqa: BLE001 -- every ending is reported, KeyboardInterrupt too
        unfinished.finish_some(within_s=_LAST_SAVE_S)
        if follows_from_stop(error):
            print(traceback_text(error), end="", file=sys.stderr)
            return _break_off(f"which ended a process that the function had started ({last_line(error)})")
        return _report_error(run, files, error, kind=Kind.RAISED)
    return _report_value(run, files, value)


def _in_one_process(call: Call) -> Any:
    """Call the function; what it has forked, and comes out of it as well, ends here and reports nothing.

    The umask is the rank's again after that: it decides whether our files can be read by their owner.
    """
    owner, umask = os.getpid(), current_umask()
    try:
        value = call()
    except BaseException as error:
        end_forked_child(owner, error)
        raise
    finally:
        os.umask(umask)
    end_forked_child(owner)
    return value


def _break_off(how: str) -> Outcome:
    request = stop.stop_request()
    words = f"asked to stop by {request.signal_name if request else 'nobody'}, {how}"
    print(f"[helpers] {words}", file=sys.stderr, flush=True)
    return outcome_now(Kind.BROKEN_OFF, error=words, exit_code=_TERMINATED)


def _leave_when_cancelled(files: RunFolder) -> None:
    """End at once when the job is cancelled and has no Checkpointer: nothing would use the grace to save."""
    stop.wait_for_stop()
    if files.cancel_mark.exists() and not files.checkpoints.is_dir():
        print("Cancelled.", file=sys.stderr, flush=True)
        end_now(_TERMINATED)


def _report_value(run: Run, files: RunFolder, value: Any) -> Outcome:
    try:
        save_result(files, run.rank, value)
    except NotWritten as error:
        text = f"{NOT_WRITTEN} to {error.filename}: {error.strerror}"
    except Exception as error:  # noqa: BLE001 -- pickling runs the user's code
        kind = type(value)
        text = f"a value of type {kind.__module__}.{kind.__qualname__} cannot be pickled: {error}"
    else:
        return outcome_now(Kind.RETURNED)
    print(f"The function returned, but {text}", file=sys.stderr)
    return outcome_now(Kind.UNSAVED, error=text, exit_code=1)


def _report_error(run: Run, files: RunFolder, error: BaseException, *, kind: Kind) -> Outcome:
    text = traceback_text(error)
    print(text, end="", file=sys.stderr, flush=True)
    save_exception(files, run.attempt, run.rank, error)
    return outcome_now(kind, error=last_line(error), traceback=text, exit_code=1)


if __name__ == "__main__":
    main()
