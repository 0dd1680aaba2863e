"""Run a submission in this very process: for a debugger, or a quick look."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.runtime.call import save_result
from helpers.runtime.current import ATTEMPT_VARIABLE, RUN_VARIABLE
from helpers.runtime.ranks import Ranks
from helpers.runtime.secrets import read_secrets_of
from helpers.runtime.status import Ending, State, Status, record_attempt, write_status
from helpers.runtime.traceback_text import last_line
from helpers.submission.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from helpers.submission.plan import Plan

_ID = "inline"
INLINE_SCRIPT = "# run inline: there is no script\n"


def run_inline(plan: Plan, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Job[Any]:
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
            value = function(*args, **kwargs)
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
