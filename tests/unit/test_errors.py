"""Errors survive every way in which they travel, and say what to do."""

import copy
import pickle
from concurrent.futures import CancelledError, ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from helpers import errors

FACTS = errors.JobFacts(job_id="4711", folder="/runs/net/1", node="gpu1", rank=1, exit_code=137, signal="SIGKILL")
JOB_ERRORS = [
    errors.JobFailed,
    errors.JobExited,
    errors.JobKilled,
    errors.JobOutOfMemory,
    errors.GpuOutOfMemory,
    errors.TimeLimitReached,
    errors.JobPreempted,
    errors.NodeFailed,
    errors.JobCancelled,
    errors.DependencyFailed,
    errors.SetupFailed,
    errors.EnvironmentMismatch,
    errors.RawDataChanged,
    errors.ResultNotSaved,
    errors.ResultNotLoaded,
    errors.JobLost,
]
OTHERS = [errors.InvalidRequest, errors.Rejected, errors.ClusterUnreachable]
SAMPLES = [
    *(kind("It ended.", facts=FACTS, hint="helpers logs 4711") for kind in JOB_ERRORS),
    *(kind("It is not so.", hint="gpus=4") for kind in OTHERS),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("travel", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_an_error_survives_its_travels(error: errors.HelpersError, travel: object) -> None:
    """A job that waits for another job raises its error, and a pool that cannot load one hangs."""
    error.add_note("a note")
    again = travel(error)  # type: ignore[operator]
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def end_in_a_pool() -> None:
    raise errors.JobKilled("It ended.", facts=FACTS)


def test_an_error_comes_back_from_a_pool() -> None:
    """Where unpickling it fails, the pool breaks."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(errors.JobKilled, match="4711"):
        pool.submit(end_in_a_pool).result(60)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_no_error_is_a_timeout(error: errors.HelpersError) -> None:
    """``result(timeout=…)`` raises that one while the job still runs."""
    assert not isinstance(error, TimeoutError)


@pytest.mark.parametrize(
    ("kind", "builtin"), [(errors.InvalidRequest, ValueError), (errors.JobCancelled, CancelledError)]
)
def test_an_error_is_also_the_usual_one(kind: type, builtin: type) -> None:
    """Code that knows nothing of this library catches it."""
    assert issubclass(kind, builtin)


def test_the_text_of_an_error_has_message_hint_facts_and_log() -> None:
    """In this order: what, what to do, where, and what was printed last."""
    facts = errors.JobFacts(job_id="4711", folder="/runs/net/1", exit_code=3, log="/log", log_tail="one\ntwo")
    assert str(errors.JobExited("It ended.", facts=facts, hint="helpers logs 4711")) == (
        "It ended.\n"
        "  hint: helpers logs 4711\n"
        "  job: 4711\n"
        "  folder: /runs/net/1\n"
        "  exit code: 3\n"
        "  log: /log\n"
        "  last lines of the log:\n"
        "    one\n"
        "    two"
    )


def test_the_tree_in_the_documentation_is_the_one_in_the_code() -> None:
    """It is what people read."""
    classes = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    drawn = errors.__doc__ or ""
    assert [name for name in classes if name not in drawn] == []
