"""Through this library the fake Slurm tells what the real one does."""

from typing import Any

import pytest

from helpers import (
    Job,
    JobCancelled,
    JobExited,
    JobKilled,
    Rejected,
    SetupFailed,
    submit,
)
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import read_ledger
from helpers.submission.inventory.inventory import read_inventory
from tests.slurm.both_slurms import PATIENCE_S, Slurm
from tests.unit.submission import functions
from tests.waiting import wait_for


def ledger(job: Job[Any]) -> list[tuple[Any, ...]]:
    lines = read_ledger(RunFolder(job.folder))
    return [tuple(line.get(key) for key in ("event", "attempt", "state", "cause")) for line in lines]


def ended(job: Job[Any]) -> tuple[Any, ...]:
    """Return what a caller gets: class, facts and state; and the ledger."""
    error = job.exception(PATIENCE_S)
    facts = getattr(error, "facts", None)
    told = (getattr(facts, "exit_code", None), getattr(facts, "signal", None), getattr(facts, "rank", None))
    value = job.result() if error is None else None
    return type(error), told, value, job.state, ledger(job)


def test_the_inventory(both: Any) -> None:
    """What this library reads of a cluster is the same."""

    def scenario(_: Slurm) -> Any:
        inventory = read_inventory()
        return inventory.partitions, inventory.max_array_size, inventory.requeue_allowed, inventory.gpu_types

    real, fake = both(scenario)
    assert fake == real


CALLS = {
    "value": (lambda: submit(functions.add, 1, b=2.5), type(None)),
    "four gpus": (lambda: submit(functions.add, 1, gpus=4), type(None)),
    "raised": (lambda: submit(functions.print_and_raise), ValueError),
    "exited": (lambda: submit(functions.leave_at_once, 5), JobExited),
    "killed": (lambda: submit(functions.kill_self), JobKilled),
    "rank 1 killed": (lambda: submit(functions.fail_in_rank_one, "kill", processes=2), JobKilled),
    "set-up": (lambda: submit(functions.add, 1, setup=["module load cuda"]), SetupFailed),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_the_caller_gets(both: Any, name: str) -> None:
    """The same class, facts, state and ledger, through this library."""
    call, kind = CALLS[name]
    real, fake = both(lambda _: ended(call()))
    assert (fake, fake[0]) == (real, kind)


def test_a_cancelled_job(both: Any) -> None:
    """One that waits and one that runs."""

    def scenario(_: Slurm) -> Any:
        waiting = submit(functions.add, 1, slurm={"begin": "now+1hour"})
        running = submit(functions.sleep, 600)
        wait_for(lambda: list(running.folder.glob("attempts/0/started-*")))
        waiting.cancel()
        running.cancel()
        return ended(waiting), ended(running)

    real, fake = both(scenario)
    assert fake == real
    assert [answer[0] for answer in fake] == [JobCancelled, JobCancelled]


def test_a_refusal_through_this_library(both: Any) -> None:
    """Slurm's own sentence."""

    def scenario(_: Slurm) -> str:
        with pytest.raises(Rejected) as refused:
            submit(functions.add, 1, slurm={"reservation": "nonesuch"})
        return str(refused.value)

    real, fake = both(scenario)
    assert fake == real
