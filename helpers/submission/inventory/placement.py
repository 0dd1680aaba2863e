"""Choose where on the cluster a job goes, and refuse what could never run, before it is queued.

The partition that is asked for; else the cluster's default if it serves; else the cheapest that does, whole
nodes and billed ones counted as what they cost. Never by itself: a partition whose jobs can be preempted, and
an interactive one for a job that does not say that it is short.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.submission.inventory.fit import Fit, Misfit, judge

if TYPE_CHECKING:
    from helpers.submission.inventory.inventory import Inventory, Partition
    from helpers.submission.resources.request import Request

_INTERACTIVE = re.compile(r"interact|debug|devel|test", re.IGNORECASE)


def place(request: Request, inventory: Inventory) -> tuple[Fit, str]:
    """Return where the job goes, and why there.

    Raises:
        InvalidRequest: If no partition could ever run it, naming the limit and the nearest thing that would run.
    """
    _check_type(request, inventory)
    if request.partition is not None:
        return _place_as_asked(request, inventory), "asked for"
    default = next((partition for partition in inventory.partitions if partition.is_default), None)
    if default is not None and isinstance(fit := judge(default, request), Fit):
        return fit, "the cluster's default"
    judged = [(partition, judge(partition, request)) for partition in inventory.partitions]
    fits = [fit for partition, fit in judged if isinstance(fit, Fit) and _may_be_chosen(partition, request)]
    if fits:
        return min(fits, key=lambda fit: fit.cost), "the cheapest that serves"
    raise _refusal([(p, m) for p, m in judged if isinstance(m, Misfit)], [f for _, f in judged])


def place_session(request: Request, inventory: Inventory) -> Fit:
    """Return where a person's interactive session goes: a partition meant for it, else where a job would go.

    Raises:
        InvalidRequest: If no partition could ever run it.
    """
    most = max((group.gpus_of(request.gpus.kind) for p in inventory.partitions for group in p.nodes), default=0)
    if request.gpus.count > most > 0:
        kind = f"{request.gpus.kind}:" if request.gpus.kind else ""
        raise InvalidRequest(
            f"No partition could ever run this: a session is on one node, and none has more than {most} such GPUs.",
            hint=f'gpus="{kind}{most}"' if kind else f"gpus={most}",
        )
    if request.partition is None:
        meant = [p for p in inventory.partitions if _INTERACTIVE.search(p.name) and not (p.accounts or p.groups)]
        fits = [fit for fit in (judge(partition, request) for partition in meant) if isinstance(fit, Fit)]
        if fits:
            return min(fits, key=lambda fit: fit.cost)
    return place(request, inventory)[0]


def _place_as_asked(request: Request, inventory: Inventory) -> Fit:
    partition = inventory.partition(request.partition or "")
    if partition is None:
        names = [known.name for known in inventory.partitions]
        near = difflib.get_close_matches(request.partition or "", names, n=1)
        raise InvalidRequest(
            f"There is no partition {request.partition!r} on {inventory.cluster}.",
            hint=f'partition="{near[0]}"' if near else f"there are: {', '.join(names)}",
        )
    fit = judge(partition, request)
    if isinstance(fit, Misfit):
        raise InvalidRequest(f"The partition {partition.name} {fit.limit}: this job could never run.", hint=fit.hint)
    return fit


def _may_be_chosen(partition: Partition, request: Request) -> bool:
    if partition.preemptible or partition.accounts or partition.groups:
        return False
    return not _INTERACTIVE.search(partition.name) or request.time_min is not None


def _check_type(request: Request, inventory: Inventory) -> None:
    kind, known = request.gpus.kind, inventory.gpu_types
    if kind is None or kind in known:
        return
    near = difflib.get_close_matches(kind, known, n=1)
    raise InvalidRequest(
        f"{inventory.cluster} has no GPUs of type {kind!r}.",
        hint=f'gpus="{near[0]}:{request.gpus.count}"' if near else f"its types are: {', '.join(known) or 'not named'}",
    )


def _refusal(misfits: list[tuple[Partition, Misfit]], judged: list[Fit | Misfit]) -> InvalidRequest:
    withheld = next((fit for fit in judged if isinstance(fit, Fit)), None)
    if withheld is not None:
        return InvalidRequest(
            f"Only partitions that are never chosen by themselves could run this: {withheld.partition.name} "
            "(its jobs can be preempted, it is for interactive work, or it is not for everybody).",
            hint=f'partition="{withheld.partition.name}"',
        )
    by_limit: dict[str, list[str]] = {}
    for partition, misfit in misfits:
        by_limit.setdefault(misfit.limit, []).append(partition.name)
    limits = "; ".join(_sentence(names, limit) for limit, names in by_limit.items())
    default = next(
        (misfit for partition, misfit in misfits if partition.is_default), misfits[0][1] if misfits else None
    )
    return InvalidRequest(f"No partition could ever run this: {limits}.", hint=default.hint if default else "sinfo")


def _sentence(names: list[str], limit: str) -> str:
    verb, _, rest = limit.partition(" ")
    plural = {"has": "have", "allows": "allow", "does": "do"}
    return f"{', '.join(names)} {verb if len(names) == 1 else plural.get(verb, verb)} {rest}"
