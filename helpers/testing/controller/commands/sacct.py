"""Tell what has been accounted of jobs."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.cluster import VERSION
from helpers.testing.controller.demand import Demand
from helpers.testing.controller.jobs import Job
from helpers.testing.controller.notation.exit_codes import read_wait_status
from helpers.testing.controller.notation.hostlists import compress, ranges
from helpers.testing.controller.notation.memory import memory_text
from helpers.testing.controller.notation.options import NONE, ONE, UsageError, read_words
from helpers.testing.controller.notation.times import long_time, moment

if TYPE_CHECKING:
    from helpers.testing.controller.server import Server
    from helpers.testing.controller.step import Step

_TABLE = {
    **dict.fromkeys(("accounts", "clusters", "constraints", "delimiter", "endtime", "fields", "flags",
                     "format",
                     "group", "jobs", "name", "ncpus", "nnodes", "nodelist", "partition", "qos", "reason", "starttime",
                     "state", "timelimit-max", "timelimit-min", "uid", "units", "user", "wckeys"), ONE),
    **dict.fromkeys(("allclusters", "allocations", "allusers", "array", "brief", "completion",
                     "duplicates", "federation",
                     "help", "helpformat", "local", "long", "noconvert", "noheader", "parsable", "parsable2",
                     "truncate", "use-local-uid", "verbose", "version", "whole-hetjob"), NONE),
}  # fmt: skip
_SHORT = {
    "A": "accounts", "a": "allusers", "b": "brief", "D": "duplicates", "E": "endtime", "F": "flags", "g": "group",
    "j": "jobs", "l": "long", "L": "allclusters", "M": "clusters", "N": "nodelist", "n": "noheader", "o": "format",
    "P": "parsable2", "p": "parsable", "q": "qos", "r": "partition", "S": "starttime", "s": "state", "T": "truncate",
    "u": "user", "V": "version", "v": "verbose", "W": "wckeys", "X": "allocations",
}  # fmt: skip
_USUAL = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
_WIDTHS = {"JobID": -12, "ExitCode": 8, "NodeList": 15, "Reason": 22}
_USUAL_WIDTH = 10
_SIGNAL_BASE = 128
_NONE_ASSIGNED = "None assigned"


def sacct(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    """Answer ``sacct``."""
    options, _ = read_words("sacct", message["arguments"], table=_TABLE, short=_SHORT, stops_at_first=False)
    if "version" in options:
        return {"stdout": f"slurm-wlm {VERSION}\n"}
    if not server.cluster.settings.accounting:
        return {"stderr": "Slurm accounting storage is disabled\n", "code": 1}
    ids = [text for text in options.get("jobs", "").split(",") if text]
    jobs = [job for job in _all_jobs(server) if not ids or any(_is_meant(job, text) for text in ids)]
    if "state" in options:
        jobs = [job for job in jobs if job.state in options["state"].upper().split(",")]
    records = [record for job in jobs for record in _records(job, options)]
    fields = [field.partition("%")[0] for field in options.get("format", options.get("fields", _USUAL)).split(",")]
    return {"stdout": _table(records, fields, options, message["environment"].get("SLURM_TIME_FORMAT"))}


def _all_jobs(server: Server) -> list[Job]:
    return [*server.cluster.accounted, *server.cluster.jobs]


def _is_meant(job: Job, text: str) -> bool:
    base, _, task = text.partition(".")[0].partition("_")
    if str(job.array or job.number) != base and str(job.number) != base:
        return False
    return not task or str(job.task) in re.split(r"[\[\],]", task)


def _records(job: Job, options: dict[str, str]) -> list[dict[str, Any]]:
    shared = _shared(job)
    earlier = [{**shared, **_state_of(entry)} for entry in job.history] if "duplicates" in options else []
    now = job.record() | {
        "state": job.state if job.state != "COMPLETING" else "RUNNING",
        "wait_status": job.wait_status if job.state in {"COMPLETED", "FAILED", "OUT_OF_MEMORY"} else 0,
    }
    steps = [] if "allocations" in options or job.started is None else _steps(job, shared)
    return [*earlier, {**shared, **_state_of(now)}, *steps]


def _shared(job: Job) -> dict[str, Any]:
    cpus = job.demand.cpus_per_node * job.demand.nodes
    gpus = sum(job.demand.gpus.values()) * job.demand.nodes
    tres = f"billing={cpus},cpu={cpus}" + (f",gres/gpu={gpus}" if gpus else "")
    tres += f",mem={memory_text(job.demand.mem_mb * job.demand.nodes)},node={job.demand.nodes}"
    jobid = job.id
    if job.array is not None and job.started is None and not job.history:
        jobid = f"{job.array}_[{ranges([job.task or 0])}]" if job.state == "CANCELLED" else jobid
    return {
        "JobID": jobid, "JobIDRaw": job.number, "JobName": job.name, "Partition": job.demand.partition,
        "Account": job.account, "User": job.user, "AllocCPUS": cpus if job.started else 0, "NCPUS": cpus,
        "ReqCPUS": cpus, "NNodes": job.demand.nodes, "AllocNodes": len(job.nodes),
        "ReqMem": memory_text(job.demand.mem_mb),
        "AllocTRES": tres if job.started else "", "ReqTRES": tres, "QOS": job.options.get("qos", "normal"),
        "Timelimit": long_time(job.demand.time_min * 60) if job.demand.time_min else "UNLIMITED",
        "TimelimitRaw": job.demand.time_min, "Submit": job.submitted, "Eligible": job.submitted, "MaxRSS": "",
        "DerivedExitCode": "0:0", "Comment": job.comment, "WorkDir": job.folder, "Cluster": "", "NTasks": "",
    }  # fmt: skip


def _state_of(entry: dict[str, Any]) -> dict[str, Any]:
    code, number = read_wait_status(entry["wait_status"])
    state = f"CANCELLED by {os.getuid()}" if entry["state"] == "CANCELLED" else entry["state"]
    if entry["state"] == "CANCELLED" and entry["reason"] == "DependencyNeverSatisfied":
        state = "CANCELLED"
    return {
        "State": state, "Reason": entry["reason"], "ExitCode": f"{code}:{number}",
        "NodeList": entry["nodes"] or _NONE_ASSIGNED, "Start": entry["started"], "End": entry["ended"],
        "Elapsed": long_time(entry["elapsed"]), "ElapsedRaw": int(entry["elapsed"]),
    }  # fmt: skip


def _steps(job: Job, shared: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    blank = {**shared, "Partition": "", "User": "", "Timelimit": "", "ReqMem": ""}
    if job.launch is None:
        code, number = read_wait_status(job.wait_status)
        rows.append(
            {**blank, **_state_of(_as_entry(job, job.started, job.ended)), "JobID": f"{job.id}.batch",
             "JobName": "batch", "ExitCode": f"{code}:{number}", "MaxRSS": "0", "NTasks": 1}
        )  # fmt: skip
    return rows + [_step_row(job, blank, step) for step in [*job.ended_steps, *job.steps]]


def _step_row(job: Job, blank: dict[str, Any], step: Step) -> dict[str, Any]:
    entry = _as_entry(job, step.started, step.ended)
    if step.ended is not None:
        entry["state"] = step.mark or ("COMPLETED" if step.code == 0 else "FAILED")
    entry["wait_status"] = step.code << 8 if step.code <= _SIGNAL_BASE else step.code - _SIGNAL_BASE
    row = {**blank, **_state_of(entry), "JobID": f"{job.id}.{step.number}", "MaxRSS": "0"}
    return {**row, "JobName": step.command[0].rpartition("/")[2], "NTasks": sum(step.counts)}


def _as_entry(job: Job, started: float | None, ended: float | None) -> dict[str, Any]:
    return {
        "state": job.state if ended else "RUNNING", "reason": "", "wait_status": 0, "nodes": compress(job.nodes),
        "started": started, "ended": ended, "elapsed": (ended or time.time()) - (started or time.time()),
    }  # fmt: skip


def _table(records: list[dict[str, Any]], fields: list[str], options: dict[str, str], form: str | None) -> str:
    names = []
    for field in fields:
        known = next((name for name in [*_names()] if name.lower() == field.lower()), None)
        if known is None:
            raise UsageError(f'sacct: fatal: Invalid field requested: "{field}"\n', code=1)
        names.append(known)
    rows = [[_text(record, name, form) for name in names] for record in records]
    if "parsable2" in options or "parsable" in options:
        delimiter = options.get("delimiter", "|")
        end = "" if "parsable2" in options else delimiter
        lines = ([] if "noheader" in options else [names]) + rows
        return "".join(delimiter.join(line) + end + "\n" for line in lines)
    widths = [_WIDTHS.get(name, _USUAL_WIDTH) for name in names]
    title = [] if "noheader" in options else [names, ["-" * abs(width) for width in widths]]
    filled = ["".join(f"{_cell(t, w)} " for t, w in zip(line, widths, strict=True)) for line in title + rows]
    return "".join(f"{line}\n" for line in filled)


def _names() -> list[str]:
    empty = Job(number=0, name="", options={}, demand=Demand(partition=""), script="", command="", arguments=[],
                folder="", environment={}, user="", account="", submitted=0)  # fmt: skip
    return [*_records(empty, {"allocations": ""})[0]]


def _text(record: dict[str, Any], name: str, form: str | None) -> str:
    value = record[name]
    return moment(value, form) if name in {"Start", "End", "Submit", "Eligible"} else str(value)


def _cell(text: str, width: int) -> str:
    size = abs(width)
    short = text if len(text) <= size else text[: size - 1] + "+"
    return short.ljust(size) if width < 0 else short.rjust(size)
