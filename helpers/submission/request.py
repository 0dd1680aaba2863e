"""Read what a caller asks for, checked by the rules that hold on every cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.submission.amounts import Gpus, parse_gpus, parse_memory_mb, parse_minutes
from helpers.submission.resources import Resources

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a caller asks for; None where the choice is left to this library or to the cluster.

    Args:
        gpus: In all.
        nodes: Machines.
        processes: Ranks in all.
        cpus: For each process.
        mem_mb: Host memory on each node, in MiB.
        time_min: Wall-clock limit of one attempt, in minutes.
        total_time_min: Minutes that all attempts together may take.
        partition: By name.
        account: By name.
        qos: By name.
        slurm: Other sbatch options by their long names; None removes a default of ours.
        is_command: Whether it is a program: it sees all GPUs of a node, and gets no signal that it did not ask for.
    """

    gpus: Gpus
    nodes: int | None = None
    processes: int | None = None
    cpus: int | None = None
    mem_mb: int | None = None
    time_min: int | None = None
    total_time_min: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    slurm: dict[str, Any] = field(default_factory=dict)
    is_command: bool = False

    def processes_on(self, nodes: int) -> int:
        """Return the ranks in all: one for each GPU, or one for each node where there is none, unless given."""
        if self.processes is not None:
            return self.processes
        return nodes if self.is_command else (self.gpus.count or nodes)

    def settle(
        self,
        *,
        nodes: int | None = None,
        kind: str | None = None,
        cpus: int | None = None,
        mem_mb: int | None = None,
        partition: str | None = None,
        chosen: dict[str, str] | None = None,
        gpu_hours: float | None = None,
        default_time_min: int | None = None,
        longest_min: int | None = None,
    ) -> Resources:
        """Return what the job asks for, with the choices that were left open.

        Args:
            nodes: Machines, where the caller gave no number; None: one.
            kind: GPU type, where the caller gave none.
            cpus: For each process, where the caller gave no number.
            mem_mb: Host memory on each node, where the caller gave none.
            partition: Where the caller gave none.
            chosen: Why the choices are what they are, by keyword.
            gpu_hours: What the job costs if it takes all its time.
            default_time_min: The partition's limit for a job that asks for none.
            longest_min: The partition's limit; one attempt of a ``total_time`` takes no more.

        Raises:
            InvalidRequest: If GPUs or processes cannot be spread evenly over the nodes.
        """
        machines = self.nodes or nodes or 1
        ranks = self.processes_on(machines)
        check_even("gpus", self.gpus.count, machines)
        check_even("processes", ranks, machines)
        return Resources(
            gpus=Gpus(count=self.gpus.count, kind=self.gpus.kind or kind),
            nodes=machines,
            processes=ranks,
            cpus=self.cpus or cpus,
            mem_mb=self.mem_mb or mem_mb,
            time_min=self.time_min or self._attempt_min(longest_min),
            partition=self.partition or partition,
            account=self.account,
            qos=self.qos,
            slurm=self.slurm,
            is_command=self.is_command,
            chosen=chosen or {},
            gpu_hours=gpu_hours,
            default_time_min=default_time_min,
        )

    def _attempt_min(self, longest_min: int | None) -> int | None:
        if self.total_time_min is None:
            return None
        return min(self.total_time_min, longest_min or self.total_time_min)


def read_request(
    *,
    gpus: int | str = 0,
    nodes: int | None = None,
    processes: int | None = None,
    cpus: int | None = None,
    mem: str | float | None = None,
    time: str | float | timedelta | None = None,
    total_time: str | float | timedelta | None = None,
    partition: str | None = None,
    account: str | None = None,
    qos: str | None = None,
    slurm: dict[str, Any] | None = None,
    is_command: bool = False,
) -> Request:
    """Check the keywords of ``submit`` that ask for resources, one by one.

    Raises:
        InvalidRequest: If a value is not of its kind or out of range.
    """
    for name, value in {"nodes": nodes, "processes": processes, "cpus": cpus}.items():
        _check_positive(name, value)
    for name, text in {"partition": partition, "account": account, "qos": qos}.items():
        _check_name(name, text)
    return Request(
        gpus=_check_kind(parse_gpus(gpus), gpus),
        nodes=nodes,
        processes=processes,
        cpus=cpus,
        mem_mb=None if mem is None else parse_memory_mb(mem),
        time_min=None if time is None else parse_minutes(time),
        total_time_min=None if total_time is None else parse_minutes(total_time),
        partition=partition,
        account=account,
        qos=qos,
        slurm=({"signal": None} if is_command else {}) | check_slurm_options(slurm or {}),
        is_command=is_command,
    )


def _check_positive(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(f"{name} is a whole number from 1 up; got {value!r}.", hint=f"{name}=1")


def check_even(name: str, count: int, nodes: int) -> None:
    """Refuse an uneven spread, listing the even ones.

    Raises:
        InvalidRequest: If ``count`` is no multiple of ``nodes``.
    """
    if count % nodes:
        possible = [str(n) for n in range(1, count + 1) if count % n == 0]
        raise InvalidRequest(
            f"{count} {name} cannot be spread evenly over {nodes} nodes.",
            hint=f"nodes={possible[-1] if len(possible) < 2 else possible[1]} (possible: {', '.join(possible)})",  # noqa: PLR2004 -- a number has two divisors or more
        )


_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_KIND = re.compile(r"[\w.+-]+")


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


def _check_name(name: str, value: Any) -> None:
    if value is None:
        return
    check_line(name, value)
    if not value.strip():
        raise InvalidRequest(f"{name} is a name; got {value!r}.", hint=f"leave {name}= out")


def _check_kind(gpus: Gpus, value: Any) -> Gpus:
    if gpus.kind is not None and not _KIND.fullmatch(gpus.kind):
        raise InvalidRequest(f"gpus is a number, or type:number; got {value!r}.", hint='gpus=4 or gpus="a100:4"')
    return gpus


_OWN_OPTIONS = {
    "gpus": "gpus", "gpus-per-node": "gpus", "gres": "gpus", "nodes": "nodes", "ntasks": "processes",
    "ntasks-per-node": "processes", "cpus-per-task": "cpus", "mem": "mem", "time": "time",
    "partition": "partition", "account": "account", "qos": "qos", "job-name": "name", "dependency": "after",
    "array": "submit_array", "output": "the run folder", "error": "the run folder",
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
        if name in _OWN_OPTIONS and name != "gres":
            keyword = _OWN_OPTIONS[name]
            raise InvalidRequest(
                f"slurm={{{name!r}: …}} would contradict what this library writes itself.",
                hint=f"use {keyword}= instead" if keyword.isidentifier() else f"it is set by {keyword}",
            )
    return named
