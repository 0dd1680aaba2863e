"""Serve callables written for submitit: an object with a ``checkpoint`` method is asked what to run next.

Submitit calls the method in a signal handler; here a thread calls it, so that it also runs while the main
thread is blocked. As with submitit, only rank 0 is asked, and it is best effort: the other ranks leave when
rank 0's answer is safe.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from helpers.runtime import stop
from helpers.runtime.rank.call import Call, dump_call, keep_first_call, write_call
from helpers.runtime.rank.ending import end_now
from helpers.runtime.run.outcome import Kind, outcome_now

if TYPE_CHECKING:
    from helpers.runtime.current import Run

_POLL_S = 0.1


def serve_checkpoint_method(call: Call, run: Run) -> None:
    """Start the thread that asks ``call.function.checkpoint`` when the scheduler wants the job to stop."""
    if hasattr(call.function, "checkpoint"):
        arguments = (call, run)
        threading.Thread(target=_serve, args=arguments, name="helpers-checkpoint", daemon=True).start()


def _serve(call: Call, run: Run) -> None:
    stop.wait_for_stop()
    if run.files is None or run.attempt_files is None:
        return
    if run.is_main:
        print("Asked to stop: calling the function's checkpoint() method (submitit's).", file=sys.stderr)
        following = getattr(call.function, "checkpoint")(  # noqa: B009 -- a callable object with one more method
            *call.args, **call.kwargs
        )
        if following is None:
            print("checkpoint() returned None: the job is not requeued.", file=sys.stderr)
            return
        keep_first_call(run.files)
        write_call(run.files, dump_call(Call(following.function, following.args, following.kwargs)))
        run.ask_for_requeue(step=run.attempt + 1)
    while not run.attempt_files.requeue_mark.exists():
        time.sleep(_POLL_S)
    outcome_now(Kind.LEFT).write(run.attempt_files.outcome(run.rank))
    end_now(0)
