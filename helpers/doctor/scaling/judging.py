"""Say what makes an efficiency meaningless: then none is told."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_WAIT = 0.05  # of the time: more, and it is the disks that are measured
_MOST_SPREAD = 0.15  # of a round around the median: more, and something else runs there
_SAME = ("model", "data", "batch", "precision", "layout", "device")


def efficiency(measured: Mapping[str, Any], base: Mapping[str, Any]) -> float:
    """Return what a process does of what the one of ``base`` does: 1 where twice as many are twice as fast."""
    alone = base["images_per_s"] / len(base["ranks"])
    return float(measured["images_per_s"] / len(measured["ranks"]) / alone)


def why_meaningless(measured: Mapping[str, Any], base: Mapping[str, Any] | None) -> list[str]:
    """Return the reasons not to tell an efficiency; none where it means something.

    Args:
        measured: What one job has found.
        base: What the job of one process has found; None where it has not.
    """
    if base is None:
        return ["nothing to compare with: the run with 1 is missing"]
    differences = [name for name in _SAME if measured[name] != base[name]]
    reasons = [f"{name} is {measured[name]}, and was {base[name]} with 1" for name in differences]
    reasons += why_doubtful(measured)
    return reasons + [f"with 1: {reason}" for reason in why_doubtful(base) if reason not in reasons]


def why_doubtful(measured: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with one job's own figure: its CPUs, cards, clocks, data, and rest."""
    ranks = measured["ranks"]
    reasons = [*_too_few_cpus(ranks), *_shared_cards(ranks)]
    slowed = sorted({reason for rank in ranks for reason in rank["slowed_by"]})
    reasons += [f"clocks were lowered by {', '.join(slowed)}"] if slowed else []
    if (around := spread(measured["round_s"])) > _MOST_SPREAD:
        reasons.append(f"the rounds differ by ±{around:.0%}: something else runs there, or they are too short")
    if measured["data_wait"] > _MOST_WAIT:
        reasons.append(f"{measured['data_wait']:.0%} of the time went into waiting for data")
    return reasons


def spread(rounds: list[float]) -> float:
    """Return half of the difference between the longest and the shortest round, relative to their median."""
    return (max(rounds) - min(rounds)) / 2 / statistics.median(rounds)


def _too_few_cpus(ranks: list[dict[str, Any]]) -> list[str]:
    """Each process computes, and so does each of its workers; those of a node may share no more than they need."""
    by_node: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rank in ranks:
        by_node[rank["node"]].append(rank)
    for node, there in by_node.items():
        cpus, needed = set().union(*(rank["cpus"] for rank in there)), sum(rank["workers"] + 1 for rank in there)
        if len(cpus) < needed:
            work = f"{len(there)} process(es) with {there[0]['workers']} workers each"
            return [f"{work} share {len(cpus)} CPU(s) on {node}: {needed} are needed"]
        short = [rank for rank in there if len(rank["cpus"]) < rank["workers"] + 1]
        if short:
            return [
                f"a process on {node} is bound to {len(short[0]['cpus'])} CPU(s), for {short[0]['workers']} workers"
            ]
    return []


def _shared_cards(ranks: list[dict[str, Any]]) -> list[str]:
    cards = [(rank["node"], rank["card"]) for rank in ranks if rank["card"]]
    return ["several processes share one GPU"] if len(set(cards)) < len(cards) else []
