"""Decide whether a run may begin once more: whether it would go on, and whether going on has led anywhere."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from helpers.runtime.run.status import Ending, State, read_ledger

if TYPE_CHECKING:
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import AttemptFolder, RunFolder

_NO_PROGRESS_LIMIT = 2
_TOO_SHORT_LIMIT = 3
_SHORT_S = 60  # a program that asks for its next run sooner, unasked, has done nothing that is worth one

ASKED = "asked"
"""The cause of a requeue for which nobody but the program has asked."""

RESUMED = "resumed"
"""The ledger's event for a run that was taken up by hand: what stopped it before does not count any more."""


def newest_checkpoint(run: RunFolder) -> str | None:
    """Return the name of the newest checkpoint, such as ``step-00000120``; None where there is none."""
    try:
        names = [entry.name for entry in run.checkpoints.iterdir()]
    except FileNotFoundError:
        return None
    return max((name for name in names if re.fullmatch(r"step-\d+(-epoch-\d+)?(-again-\d+)?", name)), default=None)


def newest_step(run: RunFolder) -> int | None:
    """Return the step of the newest checkpoint; None where there is none."""
    return step_of(newest_checkpoint(run))


def step_of(checkpoint: str | None) -> int | None:
    """Return the step in the name of a checkpoint; None where there is none."""
    match = re.match(r"step-(\d+)", checkpoint or "")
    return int(match[1]) if match else None


def has_started(files: AttemptFolder) -> bool:
    """Say whether the function has been called in this attempt, by any rank."""
    return any(files.path.glob("started-*"))


def why_not_again(run: RunFolder, description: Description, checkpoint: str | None) -> Ending | None:
    """Return why the next attempt must not begin; None where it may.

    Args:
        run: The run's files.
        description: What was submitted.
        checkpoint: The newest one: where the next attempt would begin.
    """
    ledger = _since_resumed(read_ledger(run))
    first = ledger[0]["attempt"] if ledger and ledger[0]["event"] == RESUMED else 0
    earlier = [number for number in run.attempts() if number >= first]
    if too_short := _too_short_to_begin(run, ledger):
        return too_short
    if not any(has_started(run.attempt(number)) for number in earlier) or description.requeue is True:
        return None
    if description.requeue is False or not can_resume(run, description):
        return Ending(cause="cannot_resume", detail=how_it_could_resume(description))
    return _no_progress(run, ledger, checkpoint) or _only_asked(ledger)


def can_resume(run: RunFolder, description: Description) -> bool:
    """Say whether a second run goes on: by a Checkpointer, the caller's word, or what an earlier attempt asked for."""
    if description.requeue is True:
        return True
    asked_before = any(run.attempt(number).requeue_mark.exists() for number in run.attempts())
    return description.has_checkpoint_method or run.checkpoints.is_dir() or asked_before


def how_it_could_resume(description: Description) -> str:
    """Return what was missing for another attempt."""
    if description.requeue is False:
        return "the job was submitted with requeue=False"
    if description.command:
        return f"the program did not ask to be run again, by exit code {os.EX_TEMPFAIL} or requeue=True"
    return "the function had made no Checkpointer yet, so a second run would start from the beginning"


def _since_resumed(ledger: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ledger from the last time on that the run was taken up by hand."""
    numbers = [number for number, line in enumerate(ledger) if line["event"] == RESUMED]
    return ledger[numbers[-1] :] if numbers else ledger


def _no_progress(run: RunFolder, ledger: list[dict[str, Any]], checkpoint: str | None) -> Ending | None:
    """Stop a run whose last attempts all began where the one before began, and where this one would."""
    begun_from = [line.get("checkpoint") for line in ledger if line["event"] == "start"] + [checkpoint]
    recent = begun_from[-_NO_PROGRESS_LIMIT - 1 :]
    if not run.checkpoints.is_dir() or len(recent) <= _NO_PROGRESS_LIMIT or any(map(_led_on, recent, recent[1:])):
        return None
    detail = f"{_NO_PROGRESS_LIMIT} attempts in a row ended where they had begun (the last checkpoint: {recent[-1]})"
    return Ending(cause="no_progress", detail=detail)


def _led_on(before: str | None, after: str | None) -> bool:
    """Say whether an attempt has led from one checkpoint to a later one.

    A loop that saves at its start, before its first step, saves the same place again in each attempt: once is no
    progress. A loop that never calls ``step()`` has no other place, and saves there more than once.
    """
    (place, saved), (reached, saved_now) = _read_name(before), _read_name(after)
    return reached != place or saved_now > saved + 1


def _read_name(checkpoint: str | None) -> tuple[str, int]:
    """Return the place in the training that a checkpoint's name tells, and how often it had been saved before."""
    place, _, again = (checkpoint or "").partition("-again-")
    return place, int(again or 0)


def _too_short_to_begin(run: RunFolder, ledger: list[dict[str, Any]]) -> Ending | None:
    """Stop a run whose time limit passes before its function is called: it would for ever."""
    ends = [line for line in ledger if line["event"] == "end"][-_TOO_SHORT_LIMIT:]
    in_vain = [line for line in ends if line["cause"] == "timeout" and not has_started(run.attempt(line["attempt"]))]
    if len(in_vain) < _TOO_SHORT_LIMIT:
        return None
    detail = f"{_TOO_SHORT_LIMIT} attempts in a row reached their time limit before anything was called"
    return Ending(cause="too_short", detail=detail)


def _only_asked(ledger: list[dict[str, Any]]) -> Ending | None:
    """Stop a program that does nothing but ask to be run again."""
    starts = {line["attempt"]: line["time"] for line in ledger if line["event"] == "start"}
    ends = [line for line in ledger if line["event"] == "end"][-_NO_PROGRESS_LIMIT:]
    short = [
        line
        for line in ends
        if line["state"] == State.REQUEUED
        and line["cause"] == ASKED
        and line["time"] - starts.get(line["attempt"], 0) < _SHORT_S
    ]
    if len(short) < _NO_PROGRESS_LIMIT:
        return None
    detail = f"{_NO_PROGRESS_LIMIT} attempts in a row asked to be run again within {_SHORT_S} s of their start"
    return Ending(cause="no_progress", detail=detail)
