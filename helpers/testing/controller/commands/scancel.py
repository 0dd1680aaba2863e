"""Cancel and signal jobs."""

from __future__ import annotations

import getpass
import re
import signal
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import ending
from helpers.testing.controller.notation.options import MAYBE, NONE, ONE, UsageError, read_words

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server

_TABLE = {
    **dict.fromkeys(("account", "clusters", "jobname", "name", "nodelist", "partition", "qos", "reservation", "signal",
                     "sibling", "state", "user", "wckey"), ONE),
    **dict.fromkeys(("batch", "ctld", "cron", "full", "hurry", "interactive", "me",
                     "quiet", "verbose", "version"), NONE),
    "help": MAYBE,
}  # fmt: skip
_SHORT = {
    "A": "account", "b": "batch", "f": "full", "H": "hurry", "i": "interactive", "M": "clusters", "n": "name",
    "p": "partition", "Q": "quiet", "q": "qos", "R": "reservation", "s": "signal", "t": "state", "u": "user",
    "v": "verbose", "V": "version", "w": "nodelist",
}  # fmt: skip


def scancel(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    """Answer ``scancel``."""
    options, ids = read_words("scancel", message["arguments"], table=_TABLE, short=_SHORT, stops_at_first=False)
    for text in ids:
        if not re.fullmatch(r"\d+(_(\d+|\*|\[[\d,:-]+\]))?(\.\d+)?", text):
            raise UsageError(f"scancel: error: Invalid job id {text}\n", code=1)
    filters: dict[str, str] = {
        name: options[name] for name in ("user", "name", "jobname", "partition", "state") if name in options
    }
    if "me" in options:
        filters["user"] = getpass.getuser()
    if not ids and not filters:
        raise UsageError("scancel: error: No job identification provided\n", code=1)
    number = _signal_number(options.get("signal"))
    found = [job for text in ids for job in server.cluster.find(text.partition(".")[0])] if ids else server.cluster.jobs
    jobs = [job for job in found if _matches(job, filters) and not job.is_final]
    _act(server, jobs, options, number, is_part=any("_" in text for text in ids))
    return {}


def _act(server: Server, jobs: list[Job], options: dict[str, str], number: int | None, *, is_part: bool) -> None:
    if number is None:
        waiting = [job for job in jobs if job.state == "PENDING"]
        for job in jobs:
            if job in waiting and not is_part:
                ending.end_waiting(server, job)
            else:
                ending.cancel(server, job)
        return
    for job in jobs:
        if job.state == "RUNNING":
            whole, only_batch = "full" in options, "batch" in options
            ending.send_signal(
                job, number, to_batch=whole or only_batch or number == signal.SIGKILL, to_steps=not only_batch
            )


def _matches(job: Job, filters: dict[str, str]) -> bool:
    name = filters.get("name", filters.get("jobname"))
    return (
        filters.get("user", job.user) == job.user
        and (name is None or job.name in name.split(","))
        and filters.get("partition", job.demand.partition) == job.demand.partition
        and filters.get("state", job.state).upper() in {job.state, job.state[:2]}
    )


def _signal_number(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    name = f"SIG{text.upper().removeprefix('SIG')}"
    if not hasattr(signal, name):
        raise UsageError(f"scancel: error: Unknown job signal: {text}\n", code=1)
    return int(getattr(signal, name))
