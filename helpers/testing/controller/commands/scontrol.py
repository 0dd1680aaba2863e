"""Show and change what the controller knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import ending, starting
from helpers.testing.controller.cluster import INVALID_ID, VERSION
from helpers.testing.controller.commands.scontrol_show import show
from helpers.testing.controller.dependencies import read_dependencies
from helpers.testing.controller.notation.hostlists import expand
from helpers.testing.controller.notation.options import NONE, ONE, read_words
from helpers.testing.controller.notation.times import read_minutes

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Server

_TABLE = {
    **dict.fromkeys(("clusters", "uid"), ONE),
    **dict.fromkeys(("all", "details", "federation", "future", "help", "hide", "local", "oneliner", "quiet", "sibling",
                     "usage", "verbose", "version"), NONE),
}  # fmt: skip
_SHORT = {"a": "all", "d": "details", "F": "future", "h": "help", "M": "clusters", "o": "oneliner", "Q": "quiet",
          "u": "uid", "v": "verbose", "V": "version"}  # fmt: skip
_FINISHED = "Job has already finished"
_DISABLED = "Requested operation is presently disabled"
_PENDING = "Job is pending execution"


def scontrol(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    """Answer ``scontrol``."""
    options, words = read_words("scontrol", message["arguments"], table=_TABLE, short=_SHORT, stops_at_first=False)
    if "version" in options:
        return {"stdout": f"slurm-wlm {VERSION}\n"}
    form = message["environment"].get("SLURM_TIME_FORMAT")
    match [words[0].lower(), *words[1:]] if words else [""]:
        case ["show", what, *names]:
            return show(server.cluster, what.lower(), names, options=options, form=form)
        case ["ping"]:
            return {"stdout": f"Slurmctld(primary) at {os.uname().nodename} is UP\n"}
        case ["version"]:
            return {"stdout": f"slurm {VERSION}\n"}
        case [("requeue" | "requeuehold") as verb, *rest]:
            return _requeue(server, rest, holds=verb == "requeuehold")
        case [("hold" | "uhold" | "release") as verb, *ids]:
            return _hold(server, ids, "" if verb == "release" else "JobHeldUser")
        case ["update", *settings]:
            return _update(server, dict(word.partition("=")[::2] for word in settings))
        case [("suspend" | "resume" | "notify" | "top" | "reconfigure" | "write" | "token") as verb, *_]:
            return {"stderr": f"helpers.testing: the fake scontrol has no {verb}\n", "code": 1}
    return {"stderr": f"invalid keyword: {words[0] if words else ''}\n", "code": 1}


def _requeue(server: Server, words: list[str], *, holds: bool) -> dict[str, Any]:
    incomplete = bool(words) and words[0].lower() == "incomplete"
    ids = [text for word in (words[1:] if incomplete else words) for text in word.split(",")]
    return _each(server, ids, lambda job: _requeue_one(server, job, only_incomplete=incomplete, holds=holds))


def _requeue_one(server: Server, job: Job, *, only_incomplete: bool, holds: bool) -> str | None:
    if holds:
        job.held = "JobHeldUser"
    if job.state == "PENDING" or (job.state == "COMPLETING" and job.requeues):
        return None if only_incomplete else _PENDING
    if not job.requeue:
        return _DISABLED
    if job.is_final:
        if not only_incomplete:
            ending.revive(server, job)
        return None
    ending.requeue(server, job)
    return None


def _hold(server: Server, ids: list[str], reason: str) -> dict[str, Any]:
    def change(job: Job) -> str | None:
        if job.is_final:
            return _FINISHED
        job.held = reason
        if job.state == "PENDING":
            job.reason = reason or "None"
        server.changed()
        return None

    texts = [text for word in ids for text in word.split(",")]
    answer = _each(server, texts, change)
    if answer.get("code"):
        sentence = str(answer["stderr"]).splitlines()[0].partition(" for job ")[0]
        answer["stderr"] = f"{answer['stderr']}slurm_suspend error: {sentence}\n"
    return answer


def _each(server: Server, ids: list[str], change: Callable[[Job], str | None]) -> dict[str, Any]:
    words = []
    for text in ids:
        jobs = server.cluster.find(text)
        if not jobs:
            words.append(f"{INVALID_ID} for job {text}")
        answers = [(job, change(job)) for job in jobs]
        if len(answers) > 1 and any(sentence for _, sentence in answers):
            words += [f"{job.id}: {sentence or 'No error'}" for job, sentence in answers]
        else:
            words += [f"{sentence} for job {text}" for _, sentence in answers if sentence]
    return {"stderr": "".join(f"{line}\n" for line in words), "code": 1 if words else 0}


def _update(server: Server, settings: dict[str, str]) -> dict[str, Any]:
    lower = {name.lower(): value for name, value in settings.items()}
    if "nodename" in lower:
        for name in expand(lower["nodename"]):
            server.set_node(name, lower.get("state", "").lower())
        return {}
    number = lower.get("jobid", lower.get("job", ""))
    return _each(server, [number], lambda job: _update_job(server, job, lower))


def _update_job(server: Server, job: Job, settings: dict[str, str]) -> str | None:
    if job.is_final:
        return _FINISHED
    if "dependency" in settings:
        dependencies = read_dependencies(settings["dependency"]) if settings["dependency"] else []
        if dependencies is None:
            return "Job dependency problem"
        job.dependencies = dependencies
    if "timelimit" in settings:
        minutes = read_minutes(settings["timelimit"])
        if minutes is None:
            return "Invalid time limit specification"
        job.demand.time_min = minutes
        if job.state == "RUNNING":
            starting.set_clock(server, job, base=job.elapsed_s(), speed=job.clock[2])
    job.name = settings.get("jobname", settings.get("name", job.name))
    job.comment = settings.get("comment", job.comment)
    job.throttle = int(settings.get("arraytaskthrottle", job.throttle))
    job.requeue = settings.get("requeue", str(int(job.requeue))) == "1"
    server.changed()
    return None
