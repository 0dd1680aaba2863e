"""Show partitions and nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from helpers.testing.controller.cluster import VERSION
from helpers.testing.controller.nodes import cpus_used, gres, gres_used, mem_used, state_of
from helpers.testing.controller.notation.columns import named_columns, percent_columns
from helpers.testing.controller.notation.hostlists import compress, expand
from helpers.testing.controller.notation.options import NONE, ONE, UsageError, read_words
from helpers.testing.controller.notation.times import short_time

if TYPE_CHECKING:
    from helpers.testing.controller.cluster import Cluster
    from helpers.testing.controller.server import Server
    from helpers.testing.settings import Node, Partition

_TABLE = {
    **dict.fromkeys(("clusters", "Format", "format", "iterate", "nodes", "partition", "sort", "states"), ONE),
    **dict.fromkeys(("all", "dead", "exact", "federation", "help", "hide", "list-reasons", "local", "long", "noconvert",
                     "Node", "noheader", "reservation", "responding", "summarize", "usage",
                     "verbose", "version"), NONE),
}  # fmt: skip
_SHORT = {
    "a": "all", "d": "dead", "e": "exact", "h": "noheader", "i": "iterate", "l": "long", "M": "clusters", "N": "Node",
    "n": "nodes", "O": "Format", "o": "format", "p": "partition", "R": "list-reasons", "r": "responding", "S": "sort",
    "s": "summarize", "T": "reservation", "t": "states", "V": "version", "v": "verbose",
}  # fmt: skip
_USUAL = "%#P %.5a %.10l %.6D %.6t %N"
_SUMMARY = "%#P %.5a %.10l %.16F %N"
_BY_NODE = "%#N %.6D %#P %6t"
_TITLES = {
    "P": "PARTITION", "R": "PARTITION", "a": "AVAIL", "l": "TIMELIMIT", "L": "DEFAULTTIME", "D": "NODES",
    "t": "STATE", "T": "STATE", "N": "NODELIST", "n": "HOSTNAMES", "c": "CPUS", "m": "MEMORY", "G": "GRES",
    "f": "AVAIL_FEATURES", "h": "OVERSUBSCRIBE", "s": "JOB_SIZE", "C": "CPUS(A/I/O/T)", "A": "NODES(A/I)",
    "F": "NODES(A/I/O/T)", "e": "FREE_MEM", "E": "REASON", "g": "GROUPS", "w": "WEIGHT", "O": "CPU_LOAD",
}  # fmt: skip
_NAMES = {
    "PartitionName": "R", "Partition": "P", "Available": "a", "Time": "l", "DefaultTime": "L", "Nodes": "D",
    "StateCompact": "t", "StateLong": "T", "NodeList": "N", "NodeHost": "N", "CPUs": "c", "Memory": "m", "Gres": "G",
    "Features": "f", "OverSubscribe": "h", "Size": "s", "CPUsState": "C", "NodeAI": "A", "NodeAIOT": "F",
    "FreeMem": "e", "Reason": "E", "GresUsed": "gres used", "AllocMem": "alloc mem",
}  # fmt: skip
_SHORT_STATES = {"idle": "idle", "mixed": "mix", "allocated": "alloc", "down": "down", "drained": "drain",
                 "draining": "drng"}  # fmt: skip


def sinfo(server: Server, message: dict[str, Any]) -> dict[str, Any]:
    """Answer ``sinfo``."""
    cluster = server.cluster
    options, _ = read_words("sinfo", message["arguments"], table=_TABLE, short=_SHORT, stops_at_first=False)
    if "version" in options:
        return {"stdout": f"slurm-wlm {VERSION}\n"}
    wanted = options.get("partition", "").split(",") if "partition" in options else None
    partitions = [part for part in cluster.settings.partitions if wanted is None or part.name in wanted]
    groups: list[tuple[Partition, list[Node]]] = []
    for part in partitions:
        nodes = [n for n in cluster.nodes_of(part) if "nodes" not in options or n.name in expand(options["nodes"])]
        if "states" in options:
            states = options["states"].lower().split(",")
            nodes = [n for n in nodes if {state_of(cluster, n), _SHORT_STATES[state_of(cluster, n)]} & set(states)]
        groups += [(part, alike) for alike in _alike(cluster, nodes, options)]
    return {"stdout": _table(cluster, groups, options)}


def _alike(cluster: Cluster, nodes: list[Node], options: dict[str, str]) -> list[list[Node]]:
    """Put nodes on one line that show the same."""
    if "summarize" in options:
        return [nodes]
    form = options.get("format", options.get("Format", _USUAL))
    named = "Format" in options
    by_node = "Node" in options or ("NodeHost" in form if named else "%n" in form)
    all_of_it = "format" in options or named
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for node in nodes:
        shows = (node.cpus, node.mem_mb, tuple(node.gpus.items()), node.features) if all_of_it else ()
        state = () if "format" in options and "%t" not in form and "%T" not in form else (state_of(cluster, node),)
        used = (gres_used(cluster, node),) if "GresUsed" in form else ()
        key = (node.name,) if by_node else (*shows, *state, *used)
        groups.setdefault(key, []).append(node)
    return list(groups.values())


def _table(cluster: Cluster, groups: list[tuple[Partition, list[Node]]], options: dict[str, str]) -> str:
    lines: list[str] = []
    if "Format" in options:
        try:
            columns = named_columns(options["Format"], {name: (lambda: "") for name in _NAMES})
        except KeyError as error:
            raise UsageError(f"sinfo: error: Invalid node format specification: {error.args[0]}\n", code=1) from None
        if "noheader" not in options:
            lines.append("".join(fit(_TITLES.get(_NAMES[name], name.upper())) for name, fit in columns))
        for part, nodes in groups:
            values = _columns(cluster, part, nodes)
            lines.append("".join(fit(values[_NAMES[name]]()) for name, fit in columns))
        return "".join(f"{line}\n" for line in lines)
    usual = _SUMMARY if "summarize" in options else _BY_NODE if "Node" in options else _USUAL
    form = options.get("format", usual)
    for letter, names in (("P", [p.name + "*" for p, _ in groups]), ("N", [n.name for _, ns in groups for n in ns])):
        width = max([len(_TITLES[letter]), *map(len, names)])
        form = form.replace(f"%#{letter}", f"%{width}{letter}")
    if "noheader" not in options:
        lines.append(percent_columns(form, {letter: partial(str, title) for letter, title in _TITLES.items()}))
    lines += [percent_columns(form, _columns(cluster, part, nodes)) for part, nodes in groups]
    return "".join(f"{line}\n" for line in lines)


def _columns(cluster: Cluster, part: Partition, nodes: list[Node]) -> dict[str, Callable[[], Any]]:
    first = nodes[0] if nodes else None
    state = state_of(cluster, first) if first else "n/a"
    cpus = sum(node.cpus for node in nodes)
    used = sum(cpus_used(cluster, node) for node in nodes)
    out = sum(node.cpus for node in nodes if not cluster.is_usable(node.name))
    states = [state_of(cluster, node) for node in nodes]
    busy, idle = sum(s in {"mixed", "allocated"} for s in states), states.count("idle")
    default_min = part.default_time_min or part.max_time_min
    return {
        "P": lambda: part.name + ("*" if part.is_default else ""),
        "R": lambda: part.name,
        "a": lambda: "up" if part.is_up else "down",
        "l": lambda: "infinite" if part.max_time_min is None else short_time(part.max_time_min * 60),
        "L": lambda: "n/a" if default_min is None else short_time(default_min * 60),
        "D": lambda: len(nodes),
        "c": lambda: first.cpus if first else 0,
        "m": lambda: first.mem_mb if first else 0,
        "G": lambda: gres(first) if first else "(null)",
        "f": lambda: ",".join(first.features) or "(null)" if first else "(null)",
        "h": lambda: "EXCLUSIVE" if part.exclusive else "NO",
        "s": lambda: f"1-{part.max_nodes or 'infinite'}",
        "t": lambda: _SHORT_STATES.get(state, state),
        "T": lambda: state,
        "N": lambda: compress(node.name for node in nodes),
        "n": lambda: first.name if first else "",
        "C": lambda: f"{used}/{cpus - used - out}/{out}/{cpus}",
        "A": lambda: f"{busy}/{idle}",
        "F": lambda: f"{busy}/{idle}/{len(nodes) - busy - idle}/{len(nodes)}",
        "e": lambda: first.mem_mb if first else 0,
        "E": lambda: "none",
        "g": lambda: "all",
        "w": lambda: 1,
        "O": lambda: "0.00",
        "gres used": lambda: gres_used(cluster, first) if first else "(null)",
        "alloc mem": lambda: mem_used(cluster, first) if first else 0,
    }
