"""Read what a caller asks for, checked by the rules that hold on every cluster."""

from __future__ import annotations

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
        time_min: Wall-clock limit in minutes.
        partition: By name.
        account: By name.
        qos: By name.
        slurm: Other sbatch options by their long names; None removes a default of ours.
    """

    gpus: Gpus
    nodes: int | None = None
    processes: int | None = None
    cpus: int | None = None
    mem_mb: int | None = None
    time_min: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    slurm: dict[str, Any] = field(default_factory=dict)

    def processes_on(self, nodes: int) -> int:
        """Return the ranks in all: one for each GPU, or one for each node where there is none, unless given."""
        return self.processes if self.processes is not None else (self.gpus.count or nodes)

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
            time_min=self.time_min,
            partition=self.partition or partition,
            account=self.account,
            qos=self.qos,
            slurm=self.slurm,
            chosen=chosen or {},
            gpu_hours=gpu_hours,
            default_time_min=default_time_min,
        )


def read_request(
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
) -> Request:
    """Check the keywords of ``submit`` that ask for resources, one by one.

    Raises:
        InvalidRequest: If a value is not of its kind or out of range.
    """
    for name, value in {"nodes": nodes, "processes": processes, "cpus": cpus}.items():
        _check_positive(name, value)
    return Request(
        gpus=parse_gpus(gpus),
        nodes=nodes,
        processes=processes,
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
