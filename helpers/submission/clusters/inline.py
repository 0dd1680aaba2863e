"""Run a submission in this very process: for a debugger, or a quick look."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.runtime.current import ATTEMPT_VARIABLE, RUN_VARIABLE
from helpers.runtime.rank.call import save_result
from helpers.runtime.rank.place import Ranks
from helpers.runtime.rank.traceback_text import last_line
from helpers.runtime.run.secrets import read_secrets_of
from helpers.runtime.run.status import Ending, State, Status, record_attempt, write_status
from helpers.submission.jobs.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.submission.plan import Plan

_ID = "inline"
INLINE_SCRIPT = "# run inline: there is no script\n"


def run_inline(plan: Plan) -> Job[Any]:
    """Call the function here and now, as rank 0 of 1, and return a job that has ended.

    An exception is kept for ``result()``, as everywhere; ``KeyboardInterrupt`` and the debugger's exit are not.
    """
    plan = replace(plan, description=replace(plan.description, processes=1))
    plan.write(INLINE_SCRIPT)
    run, attempt = plan.run, plan.run.begin_attempt()
    record_attempt(run, event="start", attempt=attempt, job_id=_ID, nodes=os.uname().nodename, step=None)
    job: Job[Any] = Job(run.path, None, _ID)
    state, ending = State.COMPLETED, Ending(cause="returned")
    secrets = {name: value for name, value in read_secrets_of(run).items() if name not in os.environ}
    variables = secrets | {RUN_VARIABLE: str(run.path), ATTEMPT_VARIABLE: str(attempt), **Ranks().as_environment()}
    with _variables(variables):
        try:
            value = _call(plan)
            save_result(run, 0, value)
            job.set_result(value)
        except BaseException as error:
            state, ending = State.FAILED, Ending(cause="raised", rank=0, detail=last_line(error))
            job.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            record_attempt(run, event="end", attempt=attempt, job_id=_ID, state=state, cause=ending.cause, step=None)
            write_status(run, Status(state=state, job_id=_ID, attempt=attempt, ending=ending))
    return job


def _call(plan: Plan) -> Any:
    """Call the function; a job among its arguments is waited for, and stands for its result."""
    args, kwargs = plan.calls[0]
    values = [value.result() if isinstance(value, Job) else value for value in (*args, *kwargs.values())]
    return plan.function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))


@contextlib.contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
