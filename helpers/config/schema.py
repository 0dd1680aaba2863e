"""Which settings there are, and what a value of each looks like: the one list of them."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_OPTION = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a value of a setting may be.

    Args:
        rule: In words, as the end of "it is …".
        example: How a file says it.
        accepts: Whether a value that a file has is one.
        from_text: Reads the value of a variable; None where no variable sets it.
    """

    rule: str
    example: str
    accepts: Callable[[Any], bool]
    from_text: Callable[[str], Any] | None = str


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value.strip())


def _is_count(value: Any, lowest: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _is_amount(value: Any) -> bool:
    """Say whether it may be a time or a size; which ones are, the rules of ``submit`` say."""
    return _is_text(value) or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


def _is_lines(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))


def _is_option_value(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and value.isprintable())


def _number_or_text(text: str) -> int | str:
    return int(text) if re.fullmatch(r"\d+", text, re.ASCII) else text


def _word_or_text(text: str) -> bool | str:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)


def _one_of(example: str, *words: str | bool) -> Kind:
    shown = [json.dumps(word) for word in words]
    return Kind(
        rule=f"{', '.join(shown[:-1])} or {shown[-1]}",
        example=example,
        accepts=lambda value: any(value == word and type(value) is type(word) for word in words),
        from_text=_word_or_text,
    )


def _text(example: str) -> Kind:
    return Kind(rule="one line of text", example=example, accepts=_is_text)


def _amount(rule: str, example: str, *, numbers: bool) -> Kind:
    return Kind(rule=rule, example=example, accepts=_is_amount, from_text=_number_or_text if numbers else str)


def _lines(rule: str, example: str, *, in_environment: bool = True) -> Kind:
    return Kind(
        rule=rule,
        example=example,
        accepts=_is_lines,
        from_text=(lambda text: [line for line in text.splitlines() if line.strip()]) if in_environment else None,
    )


def _count(example: str, *, in_environment: bool = True) -> Kind:
    reader = _number_or_text if in_environment else None
    return Kind(rule="a whole number from 1 up", example=example, accepts=_is_count, from_text=reader)


DEFAULTS: dict[str, Kind] = {
    "partition": _text('partition = "gpu"'),
    "account": _text('account = "vision"'),
    "qos": _text('qos = "normal"'),
    "time": _amount("a time limit: text, or minutes", 'time = "8h"', numbers=True),
    "cpus": _count("cpus = 4"),
    "mem": _amount("memory: text, or gigabytes", 'mem = "64G"', numbers=False),
    "setup": _lines("a shell line, or a list of them", 'setup = ["module load cuda"]'),
    "requeue": _one_of('requeue = "auto"', "auto", True, False),
    "cluster": _one_of('cluster = "auto"', "auto", "slurm", "local", "inline"),
    "share": _one_of('share = "group"', "private", "group"),
    "snapshot": _one_of("snapshot = true", True, False),
    "raw_data": _one_of('raw_data = "refuse"', "warn", "refuse", "off"),
    "offline": _one_of("offline = true", True, False),
    "precision": _one_of('precision = "bf16"', "auto", "bf16", "fp16", "fp32"),
    "shard": _one_of("shard = true", True, False),
    "report_network": _one_of("report_network = false", True, False),
    "modules": _lines("a module's name, or a list of them", 'modules = ["cuda/12.4"]', in_environment=False),
    "environment": _text('environment = "/path/to/.venv"'),
    "container": _text('container = "image.sif"'),
    "container_engine": _one_of('container_engine = "apptainer"', "apptainer", "charliecloud", "pyxis"),
    "container_python": _text('container_python = "/opt/conda/bin/python"'),
    "container_binds": _lines("source:target:ro, or a list of them", 'container_binds = ["/data:/data:ro"]'),
    "mpi": _one_of('mpi = "mpirun"', "pmix", "pmi2", "mpirun"),
    "container_options": _lines("an option, or a list of them", 'container_options = ["--rocm"]'),
}
"""What ``[defaults]`` may say: keywords of ``submit`` that make sense for many calls, and ``NO_KEYWORDS``."""

NO_KEYWORDS = frozenset({"share", "snapshot", "raw_data", "offline", "precision", "shard", "report_network"})
"""What holds for all jobs and is no keyword of ``submit``."""

OPTION = Kind(
    rule="text, a number, true for a bare flag, or false to remove the option",
    example='slurm = { constraint = "h100" }',
    accepts=_is_option_value,
    from_text=_word_or_text,
)
"""One option in ``slurm``."""

PROFILE: dict[str, Kind] = {
    **DEFAULTS,
    "gpus": Kind(
        rule="a number, or type:number",
        example='gpus = "a100:4"',
        accepts=lambda value: _is_text(value) or _is_count(value, lowest=0),
        from_text=None,
    ),
    "nodes": _count("nodes = 2", in_environment=False),
    "processes": _count("processes = 8", in_environment=False),
    "total_time": Kind(
        rule="a time: text, or minutes", example='total_time = "7d"', accepts=_is_amount, from_text=None
    ),
}
"""What a profile may say: also how large a job is, since it is asked for by its name."""

STORAGE: dict[str, Kind] = {
    "runs": _text('runs = "$SCRATCH/runs"'),
    "data": _text('data = "/projects/vision/data"'),
    "caches": _text('caches = "$SCRATCH/caches"'),
    "archive": _text('archive = "/archive/$USER"'),
    "scratch": _text('scratch = "$SCRATCH"'),
    "node_scratch": _text('node_scratch = "/local/$USER"'),
    "expires_after": _amount("an age: text, or days", 'expires_after = "60 days"', numbers=True),
}

LIBRARY: dict[str, Any] = {
    "requeue": "auto",
    "cluster": "auto",
    "share": "private",
    "snapshot": True,
    "raw_data": "warn",
    "offline": False,
    "storage.runs": "runs",
}
"""What holds where no layer says anything; all else is left to the cluster."""

TABLES = ("extends", "defaults", "storage", "profiles", "clusters")
ENVIRONMENT = "environment"
"""A table of a project's ``pyproject.toml`` that says how its environment is made; `helpers env` reads it."""

CLUSTER_TABLES = ("extends", "defaults", "storage", "profiles")

PREFIX = "HELPERS_"
PROFILE_VARIABLE = "HELPERS_PROFILE"
OPTION_PREFIX = f"{PREFIX}SLURM_"
NO_SETTINGS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "RUN",
        "ATTEMPT",
        "END_TIME",
        "GPUS",
        "LOCAL_ID",
        "ALLOW_CPU",
        "REQUIRE_SLURM",
        "SLURM",
        "FIRST_ELEMENT",
        "PREFLIGHT",
    )
)
"""Variables of this library that are something else."""


def variable_of(key: str) -> str | None:
    """Return the variable that sets a key, such as ``HELPERS_PARTITION``; None where none does."""
    if key.startswith("slurm."):
        return OPTION_PREFIX + key.removeprefix("slurm.").upper().replace("-", "_")
    kind = kind_of(key)
    return None if kind.from_text is None else PREFIX + key.removeprefix("storage.").upper()


def variables() -> dict[str, str]:
    """Return each variable with the key that it sets; those of Slurm's options are as many as Slurm has."""
    keys = [*DEFAULTS, *(f"storage.{name}" for name in STORAGE)]
    return {name: key for key in keys if (name := variable_of(key)) is not None}


def kind_of(key: str) -> Kind:
    """Return what a value of a key may be."""
    if key.startswith("slurm."):
        return OPTION
    return STORAGE[key.removeprefix("storage.")] if key.startswith("storage.") else PROFILE[key]


def removes(value: Any) -> bool:
    """Say whether the value of a Slurm option, ``false`` or ``"none"``, takes away what a lower layer asks for."""
    return value is False or value == "none"


def option_name(name: str) -> str | None:
    """Return an sbatch option as Slurm writes it, ``mail-type``; None for what can be none."""
    named = name.removeprefix("--").replace("_", "-")
    return named if _OPTION.fullmatch(named) else None


def nearest(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return a hint: the name that was probably meant, or all there are."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"{otherwise}: {', '.join(known) or 'none'}"


def check_value(key: str, value: Any, where: str) -> None:
    """Refuse a value of the wrong kind.

    Raises:
        InvalidRequest: With where it stands.
    """
    kind = kind_of(key)
    if not kind.accepts(value):
        raise InvalidRequest(f"{where}: {key} is {kind.rule}; got {value!r}.", hint=kind.example)
