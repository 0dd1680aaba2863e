"""Describe what one job asks for, checked by the rules that hold on every cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.submission.amounts import Gpus, parse_gpus, parse_memory_mb, parse_minutes

if TYPE_CHECKING:
    from datetime import timedelta

_WARNING_S = 90  # time to finish a step and save; submitit's default too
_SHORTEST_WARNING_S = 10


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one job asks for.

    Args:
        gpus: In all.
        nodes: Machines.
        processes: Ranks in all, the same number on each node.
        cpus: For each process; None for the cluster's default.
        mem_mb: Host memory on each node, in MiB; None for the cluster's default.
        time_min: Wall-clock limit in minutes; None for the partition's own.
        partition: None for the cluster's default.
        account: None for the user's default.
        qos: None for the user's default.
        slurm: Other sbatch options by their long names; None removes a default of ours.
    """

    gpus: Gpus
    nodes: int
    processes: int
    cpus: int | None = None
    mem_mb: int | None = None
    time_min: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    slurm: dict[str, Any] = field(default_factory=dict)

    @property
    def processes_per_node(self) -> int:
        """Ranks on each node."""
        return self.processes // self.nodes

    @property
    def warning_s(self) -> int:
        """Seconds before the time limit at which the job is told, well within the limit."""
        if self.time_min is None:
            return _WARNING_S
        return max(_SHORTEST_WARNING_S, min(_WARNING_S, self.time_min * 60 // 4))

    def sentence(self) -> str:
        """Say in one line what is asked for."""
        parts = [self.partition or "default partition", _count(self.nodes, "node")]
        parts[-1] += f" × {_count(self.processes_per_node, 'process', 'processes')}"
        if self.gpus.count:
            kind = f" {self.gpus.kind}" if self.gpus.kind else ""
            parts.append(f"{self.gpus.count}{kind} GPU{'s' if self.gpus.count > 1 else ''}")
        if self.cpus:
            parts.append(f"{_count(self.cpus, 'CPU')} each")
        if self.mem_mb:
            parts.append(f"{self.mem_mb / 1024:g}G")
        parts.append("partition's time limit" if self.time_min is None else _duration(self.time_min))
        return " · ".join(parts)


def make_resources(
    *,
    gpus: int | str = 0,
    nodes: int | None = None,
    processes: int | None = None,
    cpus: int | None = None,
    mem: str | float | None = None,
    time: str | float | timedelta | None = None,
    partition: str | None = None,
    account: str | None = None,
    qos: str | None = None,
    slurm: dict[str, Any] | None = None,
) -> Resources:
    """Check what a caller asked for and work out the rest.

    Raises:
        InvalidRequest: If a value is out of range, or GPUs or processes cannot be spread evenly over the nodes.
    """
    for name, value in {"nodes": nodes, "processes": processes, "cpus": cpus}.items():
        _check_positive(name, value)
    wanted = parse_gpus(gpus)
    machines = nodes or 1
    ranks = processes if processes is not None else (wanted.count or machines)
    _check_even("gpus", wanted.count, machines)
    _check_even("processes", ranks, machines)
    return Resources(
        gpus=wanted,
        nodes=machines,
        processes=ranks,
        cpus=cpus,
        mem_mb=None if mem is None else parse_memory_mb(mem),
        time_min=None if time is None else parse_minutes(time),
        partition=partition,
        account=account,
        qos=qos,
        slurm=_check_slurm_options(slurm or {}),
    )


def _check_positive(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(f"{name} is a whole number from 1 up; got {value!r}.", hint=f"{name}=1")


def _check_even(name: str, count: int, nodes: int) -> None:
    if count % nodes:
        possible = [str(n) for n in range(1, count + 1) if count % n == 0]
        raise InvalidRequest(
            f"{count} {name} cannot be spread evenly over {nodes} nodes.",
            hint=f"nodes={possible[-1] if len(possible) < 2 else possible[1]} (possible: {', '.join(possible)})",  # noqa: PLR2004 -- a number has two divisors or more
        )


_OWN_OPTIONS = {
    "gpus": "gpus", "gpus-per-node": "gpus", "gres": "gpus", "nodes": "nodes", "ntasks": "processes",
    "ntasks-per-node": "processes", "cpus-per-task": "cpus", "mem": "mem", "time": "time",
    "partition": "partition", "account": "account", "qos": "qos", "job-name": "name", "dependency": "after",
    "array": "submit_array", "output": "the run folder", "error": "the run folder",
}  # fmt: skip


def _check_slurm_options(options: dict[str, Any]) -> dict[str, Any]:
    named = {str(name).removeprefix("--").replace("_", "-"): value for name, value in options.items()}
    for name in named:
        if name in _OWN_OPTIONS and name != "gres":
            keyword = _OWN_OPTIONS[name]
            raise InvalidRequest(
                f"slurm={{{name!r}: …}} would contradict what this library writes itself.",
                hint=f"use {keyword}= instead" if keyword.isidentifier() else f"it is set by {keyword}",
            )
    return named


def _count(number: int, word: str, plural: str | None = None) -> str:
    return f"{number} {word if number == 1 else plural or word + 's'}"


def _duration(minutes: int) -> str:
    if minutes % 1440 == 0:
        return f"{minutes // 1440}d"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}min"
