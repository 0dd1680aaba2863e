"""Read what a caller asks for, checked by the rules that hold on every cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.submission.resources.amounts import Gpus, parse_gpus, parse_memory_mb, parse_minutes
from helpers.submission.resources.resources import Resources
from helpers.submission.resources.slurm_options import (
    check_line,
    check_said_once,
    check_slurm_options,
    said_otherwise,
)

if TYPE_CHECKING:
    from datetime import timedelta

_KIND = re.compile(r"[\w.+-]+")


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
            cpus=self.cpus or self._unless_said("cpus", cpus),
            mem_mb=self.mem_mb or self._unless_said("mem", mem_mb),
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

    def _unless_said(self, keyword: str, chosen: int | None) -> int | None:
        """Return what was chosen for the caller; None where an option of sbatch says it, which takes no other."""
        return None if said_otherwise(keyword, self.slurm) else chosen

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
    wanted, options = _check_kind(parse_gpus(gpus), gpus), check_slurm_options(slurm or {})
    check_said_once({"gpus": gpus if wanted.count else None, "cpus": cpus, "mem": mem}, options)
    return Request(
        gpus=wanted,
        nodes=nodes,
        processes=processes,
        cpus=cpus,
        mem_mb=None if mem is None else parse_memory_mb(mem),
        time_min=None if time is None else parse_minutes(time),
        total_time_min=None if total_time is None else parse_minutes(total_time),
        partition=partition,
        account=account,
        qos=qos,
        slurm=({"signal": None} if is_command else {}) | options,
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
