"""Describe what one job asks for, with nothing left open."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.runtime.usage.words import count_words
from helpers.submission.resources.amounts import duration_text, memory_text

if TYPE_CHECKING:
    from helpers.submission.resources.amounts import Gpus

_WARNING_S = 90  # time to finish a step and save; submitit's default too
_SHORTEST_WARNING_S = 10
_SLURMS_WARNING_S = 60


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
        chosen: Why the choices that were left open are what they are, by keyword.
        default_time_min: The partition's limit for a job that asks for none, where it is known.
        gpu_hours: What the job costs if it takes all its time; None where nobody counts.
        is_command: Whether each process runs a program, not a function.
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
    chosen: dict[str, str] = field(default_factory=dict)
    gpu_hours: float | None = None
    default_time_min: int | None = None
    is_command: bool = False

    @property
    def processes_per_node(self) -> int:
        """Ranks on each node."""
        return self.processes // self.nodes

    @property
    def warning_s(self) -> int:
        """Seconds before the time limit at which the job is told, well within the limit; 0 where it is not."""
        if "signal" in self.slurm:  # [R|B:]<signal>[@<seconds>], 60 where it says nothing (man sbatch)
            _, _, seconds = str(self.slurm["signal"] or "@0").partition("@")
            return int(seconds) if seconds.isdecimal() else _SLURMS_WARNING_S
        limit_min = self.time_min or self.default_time_min
        if limit_min is None:
            return _WARNING_S
        return max(_SHORTEST_WARNING_S, min(_WARNING_S, limit_min * 60 // 4))

    @property
    def warning_signal(self) -> str:
        """The signal that tells the job of it, such as ``"SIGUSR2"``; empty for none.

        Raises:
            InvalidRequest: If there is no such signal.
        """
        asked = self.slurm.get("signal", "USR2")
        name = str(asked or "").partition("@")[0].rpartition(":")[2].strip().upper().removeprefix("SIG")
        if not name:
            return ""
        try:
            return (signal.Signals(int(name)) if name.isdecimal() else signal.Signals[f"SIG{name}"]).name
        except (KeyError, ValueError):
            raise InvalidRequest(
                f"slurm={{'signal': …}} names a signal; got {asked!r}.", hint='slurm={"signal": "USR1@120"}'
            ) from None

    @property
    def asked_for(self) -> dict[str, str]:
        """What is asked for, by keyword, in words; what is left open is left out."""
        known = {
            "gpus": self.gpus.per_node(1) if self.gpus.count else None,
            "nodes": self.nodes,
            "processes": self.processes,
            "cpus": self.cpus,
            "mem": None if self.mem_mb is None else memory_text(self.mem_mb),
            "time_min": self.time_min,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
        }
        return {name: str(value) for name, value in known.items() if value is not None}

    def sentence(self) -> str:
        """Say in one line what is asked for."""
        parts = [self.partition or "default partition", count_words(self.nodes, "node")]
        parts[-1] += f" × {count_words(self.processes_per_node, 'process', 'processes')}"
        if self.gpus.count:
            kind = f" {self.gpus.kind}" if self.gpus.kind else ""
            parts.append(f"{self.gpus.count}{kind} GPU{'s' if self.gpus.count > 1 else ''}")
        if self.cpus:
            parts.append(f"{count_words(self.cpus, 'CPU')} each")
        if self.mem_mb:
            parts.append(memory_text(self.mem_mb))
        parts.append(self._time())
        if self.gpu_hours:
            hours = f"{self.gpu_hours:.3g}"
            parts.append(f"at most {hours} GPU-hour{'' if hours == '1' else 's'}")
        return " · ".join(parts)

    def _time(self) -> str:
        if self.time_min is not None:
            return duration_text(self.time_min)
        return f"{duration_text(self.default_time_min)} (its default)" if self.default_time_min else "its time limit"
