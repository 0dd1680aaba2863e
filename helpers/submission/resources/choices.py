"""Say of each thing that a job asks for what it is, and who said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.submission.resources.amounts import duration_text, memory_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.submission.plan import Plan
    from helpers.submission.resources.resources import Resources

_OPEN = "left to the cluster"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One thing that a job asks for.

    Args:
        key: The keyword, or ``slurm.<option>``.
        value: In words.
        origin: Who said so: the call, a file and its line, a variable; or how it was chosen where nobody did.
    """

    key: str
    value: str
    origin: str


def choices_of(plan: Plan) -> tuple[Choice, ...]:
    """Return what a planned job asks for, each with its origin."""
    resources = plan.resources
    values: dict[str, str | None] = {
        "gpus": resources.gpus.per_node(1) if resources.gpus.count else "0",
        "nodes": str(resources.nodes),
        "processes": str(resources.processes),
        "cpus": None if resources.cpus is None else str(resources.cpus),
        "mem": None if resources.mem_mb is None else memory_text(resources.mem_mb),
        "time": None if resources.time_min is None else duration_text(resources.time_min),
        "partition": resources.partition,
        "account": resources.account,
        "qos": resources.qos,
        **{f"slurm.{name}": _option(value) for name, value in resources.slurm.items()},
        "setup": "; ".join(plan.setup) or None,
        "container": plan.description.container or None,
        "environment": plan.description.python if plan.surroundings.lines else None,
        "requeue": str(plan.description.requeue),
        "share": plan.description.share,
    }
    usual = _usual_reasons(resources)
    found = []
    for key, value in values.items():
        origin = resources.chosen.get(key) or usual.get(key)
        if value is not None and origin is not None:
            found.append(Choice(key=key, value=value, origin=origin))
        elif value is None and key in {"time", "partition"}:
            found.append(Choice(key=key, value="-", origin=_OPEN))
    return tuple(found)


def as_comments(choices: Sequence[Choice]) -> list[str]:
    """Return the choices as lines of a batch script's comment."""
    wide = [max((len(getattr(choice, name)) for choice in choices), default=0) for name in ("key", "value")]
    return [f"#   {c.key:<{wide[0]}}  {c.value:<{wide[1]}}  {c.origin}" for c in choices]


def _usual_reasons(resources: Resources) -> dict[str, str]:
    """Return how what nobody has said came about."""
    share = "its share of the node, by GPUs" if resources.gpus.count else None
    return {
        "nodes": "the fewest that serve",
        "processes": "one for each GPU" if resources.processes == resources.gpus.count else "one for each node",
        **({"cpus": share, "mem": share} if share else {}),
        "time": "the partition's limit",
        "share": "usual: you alone can read the run folder",
    }


def _option(value: Any) -> str:
    return "not asked for" if value is None or value is False else "set" if value is True else str(value)
