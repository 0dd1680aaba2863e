"""Show the queue."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.cluster import INVALID_ID, VERSION
from helpers.testing.controller.dependencies import describe
from helpers.testing.controller.jobs import COMPACT, Job, waiting_elements
from helpers.testing.controller.notation.columns import named_columns, percent_columns
from helpers.testing.controller.notation.gpus import gpus_text
from helpers.testing.controller.notation.hostlists import compress
from helpers.testing.controller.notation.memory import memory_text
from helpers.testing.controller.notation.options import NONE, ONE, UsageError, read_words
from helpers.testing.controller.notation.times import moment, short_time

if TYPE_CHECKING:
    from helpers.testing.controller.server import Server

_TABLE = {
    **dict.fromkeys(("account", "clusters", "Format", "format", "iterate", "jobs", "licenses", "name", "nodelist",
                     "partition", "qos", "reservation", "sort", "states", "steps", "user", "users"), ONE),
    **dict.fromkeys(("all", "array", "array-unique", "federation", "help", "hide", "local", "long", "me", "noconvert",
                     "noheader", "priority", "sibling", "start", "usage", "verbose", "version"), NONE),
}  # fmt: skip
_SHORT = {
    "A": "account", "a": "all", "h": "noheader", "i": "iterate", "j": "jobs", "l": "long", "L": "licenses",
    "M": "clusters", "n": "name", "o": "format", "O": "Format", "p": "partition", "P": "priority", "q": "qos",
    "R": "reservation", "r": "array", "S": "sort", "s": "steps", "t": "states", "u": "user", "v": "verbose",
    "V": "version", "w": "nodelist",
}  # fmt: skip
_USUAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_USUAL_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_TITLES = {
    "i": "JOBID", "P": "PARTITION", "j": "NAME", "u": "USER", "t": "ST", "T": "STATE", "M": "TIME", "D": "NODES",
    "R": "NODELIST(REASON)", "r": "REASON", "N": "NODELIST", "l": "TIME_LIMIT", "e": "END_TIME", "S": "START_TIME",
    "V": "SUBMIT_TIME", "a": "ACCOUNT", "q": "QOS", "C": "CPUS", "m": "MIN_MEMORY", "b": "TRES_PER_NODE",
    "k": "COMMENT", "L": "TIME_LEFT", "A": "JOBID", "F": "ARRAY_JOB_ID", "K": "ARRAY_TASK_ID", "Z": "WORK_DIR",
    "o": "COMMAND", "Q": "PRIORITY", "E": "DEPENDENCY", "U": "USER", "p": "PRIORITY",
}  # fmt: skip
_NAMES = {
    "JobArrayID": "i", "JobID": "A", "State": "T", "StateCompact": "t", "Reason": "r", "NodeList": "N",
    "ReasonList": "R", "Name": "j", "Partition": "P", "UserName": "u", "TimeUsed": "M", "TimeLimit": "l",
    "TimeLeft": "L", "NumNodes": "D", "NumCPUs": "C", "Account": "a", "QOS": "q", "EndTime": "e", "StartTime": "S",
    "SubmitTime": "V", "Comment": "k", "ArrayJobID": "F", "ArrayTaskID": "K", "WorkDir": "Z", "Command": "o",
    "Dependency": "E", "tres-per-node": "b", "MinMemory": "m",
}  # fmt: skip


def squeue(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    """Answer ``squeue``."""
    environment = message["environment"]
    options, _ = read_words("squeue", message["arguments"], table=_TABLE, short=_SHORT, stops_at_first=False)
    if "version" in options:
        return {"stdout": f"slurm-wlm {VERSION}\n"}
    options = {**_from_variables(environment), **options}
    ids = [text for text in options.get("jobs", "").split(",") if text]
    for text in ids:
        if not re.fullmatch(r"\d+(_(\d+|\[[\d,:-]+\]))?", text):
            raise UsageError(f"squeue: error: Invalid job id: {text}\n", code=1)
    if len(ids) == 1 and not server.cluster.is_known(ids[0]):
        raise UsageError(f"slurm_load_jobs error: {INVALID_ID}\n", code=1)
    jobs = [job for job in server.cluster.jobs if not ids or any(job in server.cluster.find(text) for text in ids)]
    jobs = [job for job in jobs if _is_shown(job, options)]
    lines = rows(jobs, split="array" in options)
    return {"stdout": _table(lines, options, environment.get("SLURM_TIME_FORMAT"))}


def _from_variables(environment: dict[str, str]) -> dict[str, str]:
    names = {"SQUEUE_PARTITION": "partition", "SQUEUE_STATES": "states", "SQUEUE_USERS": "user",
             "SQUEUE_FORMAT": "format", "SQUEUE_FORMAT2": "Format", "SQUEUE_ARRAY": "array", "SQUEUE_ALL": "all",
             "SQUEUE_NAMES": "name"}  # fmt: skip
    return {option: environment[name] for name, option in names.items() if name in environment}


def _is_shown(job: Job, options: dict[str, str]) -> bool:
    users = options.get("user", options.get("users"))
    if "me" in options:
        users = getpass.getuser()
    states = options.get("states", "").upper()
    wanted = set(states.split(",")) if states else {"PENDING", "RUNNING", "COMPLETING", "SUSPENDED"}
    return (
        ("ALL" in wanted or bool({job.state, COMPACT.get(job.state, "")} & wanted))
        and (users is None or job.user in users.split(","))
        and ("partition" not in options or job.demand.partition in options["partition"].split(","))
        and ("name" not in options or job.name in options["name"].split(","))
    )


def rows(jobs: list[Job], *, split: bool) -> list[tuple[Job, str]]:
    """Return each line's job and id: waiting elements of an array share a line unless ``split``."""
    lines: list[tuple[Job, str]] = []
    seen: set[tuple[int, str]] = set()
    for job in sorted(jobs, key=lambda one: (one.demand.partition, one.state != "PENDING")):
        waits_with_others = job.array is not None and job.started is None and job.state in {"PENDING", "CANCELLED"}
        if split or not waits_with_others or job.array is None:
            lines.append((job, job.id))
            continue
        key = (job.array, job.state)
        if key not in seen:
            seen.add(key)
            lines.append((job, f"{job.array}_[{waiting_elements(jobs, job)}]"))
    return lines


def _table(lines: list[tuple[Job, str]], options: dict[str, str], form: str | None) -> str:
    shown: list[str] = []
    if "Format" in options:
        template = {name: (lambda: "") for name in [*_NAMES, "exit_code"]}
        try:
            columns = named_columns(options["Format"], template)
        except KeyError as error:
            raise UsageError(f"squeue: error: Invalid job format specification: {error.args[0]}\n", code=1) from None
        if "noheader" not in options:
            shown.append("".join(fit(_title(name)) for name, fit in columns))
        for job, text in lines:
            values = columns_of(job, text, form)
            shown.append("".join(fit(_named(name, job, values)) for name, fit in columns))
    else:
        pattern = options.get("format", _USUAL_LONG if "long" in options else _USUAL)
        if "noheader" not in options:
            titles = {letter: partial(str, title) for letter, title in _TITLES.items()}
            shown.append(percent_columns(pattern, titles))
        shown += [percent_columns(pattern, columns_of(job, text, form)) for job, text in lines]
    return "".join(f"{line}\n" for line in shown)


def _title(name: str) -> str:
    return "EXIT_CODE" if name == "exit_code" else _TITLES.get(_NAMES[name], name.upper())


def _named(name: str, job: Job, values: dict[str, Callable[[], Any]]) -> Any:
    return job.wait_status if name == "exit_code" else values[_NAMES[name]]()


def columns_of(job: Job, text: str, form: str | None) -> dict[str, Callable[[], Any]]:
    """Return what each letter of ``--format`` stands for."""
    demand, nodes = job.demand, compress(job.nodes)
    limit = job.limit_s()
    together = text.partition("_[")[2].removesuffix("]")
    return {
        "i": lambda: text,
        "A": lambda: job.number,
        "F": lambda: job.array or job.number,
        "K": lambda: together or ("N/A" if job.task is None else job.task),
        "P": lambda: demand.partition,
        "j": lambda: job.name,
        "u": lambda: job.user,
        "U": lambda: job.user,
        "t": lambda: COMPACT[job.state],
        "T": lambda: job.state,
        "r": lambda: job.reason,
        "N": lambda: nodes,
        "R": lambda: nodes if job.is_active or (job.is_final and nodes) else f"({job.reason})",
        "M": lambda: short_time(job.elapsed_s()),
        "l": lambda: "UNLIMITED" if limit is None else short_time(limit),
        "L": lambda: "UNLIMITED" if limit is None else short_time(max(0.0, limit - job.elapsed_s())),
        "D": lambda: demand.nodes,
        "C": lambda: demand.cpus_per_node * demand.nodes,
        "m": lambda: memory_text(demand.mem_mb),
        "b": lambda: gpus_text(demand.gpus, word="gres:gpu") or "N/A",
        "e": lambda: moment(job.end_time(), form, none="N/A"),
        "S": lambda: moment(job.started, form, none="N/A"),
        "V": lambda: moment(job.submitted, form),
        "a": lambda: job.account,
        "q": lambda: job.options.get("qos", "normal"),
        "k": lambda: job.comment or "(null)",
        "Z": lambda: job.folder,
        "o": lambda: job.command,
        "E": partial(describe, job),
        "Q": lambda: 0 if job.held else int(4294900000 - job.number),
        "p": lambda: "0.0" if job.held else "0.9999",
    }
