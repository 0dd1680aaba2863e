"""Check the options of sbatch that a caller gives by their long names, beside the keywords of ``submit``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from helpers.errors import InvalidRequest

_OPTION = re.compile(r"[a-z][a-z0-9-]*")


def check_line(name: str, value: Any) -> None:
    """Refuse what a line of the batch script cannot hold as it is.

    Raises:
        InvalidRequest: For a line break and other control characters, which could add a line; and for a backslash,
            which Slurm takes for a quote of its own.
    """
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        raise InvalidRequest(
            f"{name} is one line of text, without backslashes; got {value!r}.", hint=f"leave {name} out"
        )


_OWN_OPTIONS = {
    "gpus": "gpus", "gpus-per-node": "gpus", "nodes": "nodes", "ntasks": "processes",
    "ntasks-per-node": "processes", "ntasks-per-gpu": "processes", "cpus-per-task": "cpus", "mem": "mem",
    "time": "time", "partition": "partition", "account": "account", "qos": "qos", "job-name": "name",
    "dependency": "after", "no-requeue": "requeue=False", "array": "submit_array", "output": "the run folder",
    "error": "the run folder",
}  # fmt: skip


def check_slurm_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return sbatch options by their long names as Slurm writes them.

    Raises:
        InvalidRequest: For one that this library writes itself, a name that is none, or a value that is none: a
            line break in either would add a line to the script.
    """
    if not isinstance(options, Mapping):
        raise InvalidRequest(f"slurm is a dictionary; got {options!r}.", hint='slurm={"constraint": "h100"}')
    named = {str(name).removeprefix("--").replace("_", "-"): value for name, value in options.items()}
    for name, value in named.items():
        if not _OPTION.fullmatch(name):
            raise InvalidRequest(
                f"slurm takes sbatch options by their long names; got {name!r}.", hint='slurm={"mail-type": "END"}'
            )
        if not isinstance(value, str | int | float | bool | None):
            raise InvalidRequest(f"slurm={{{name!r}: …}} is text or a number; got {value!r}.")
        if isinstance(value, str):
            check_line(f"slurm={{{name!r}: …}}", value)
        if name in _OWN_OPTIONS:
            keyword = _OWN_OPTIONS[name]
            raise InvalidRequest(
                f"slurm={{{name!r}: …}} would contradict what this library writes itself.",
                hint=f"use {keyword}= instead" if keyword.isidentifier() else f"it is set by {keyword}",
            )
    return named


_OTHER_OPTIONS = {
    "gpus": ("gres", "gpus-per-task", "gpus-per-socket"),
    "cpus": ("cpus-per-gpu",),
    "mem": ("mem-per-cpu", "mem-per-gpu"),
}
"""The options of sbatch that say the same in another way: it refuses both, or takes the larger."""


def said_otherwise(keyword: str, options: Mapping[str, Any]) -> str | None:
    """Return which sbatch option says what a keyword of ours does, in another way; None where none does."""
    return next((name for name in _OTHER_OPTIONS[keyword] if _says(name, options.get(name))), None)


def _says(name: str, value: Any) -> bool:
    if name == "gres":  # a list of what nodes have: "gpu:2,tmpdisk:100"
        return any(part.split(":")[0] == "gpu" for part in str(value).removeprefix("gres:").split(","))
    return value is not None and value is not False


def check_said_once(asked: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse GPUs, CPUs or memory that are asked for by a keyword and by an sbatch option.

    Raises:
        InvalidRequest: With the option to leave out.
    """
    for keyword, value in asked.items():
        other = None if value is None else said_otherwise(keyword, options)
        if other is not None:
            raise InvalidRequest(
                f"{keyword}={value!r} and slurm={{{other!r}: {options[other]!r}}} ask for the same in two ways.",
                hint=f"leave out {keyword}, or {other}",
            )
