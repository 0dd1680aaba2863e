"""Tell which GPUs a process may use: those of this machine that ``CUDA_VISIBLE_DEVICES`` names.

Source of the variable's rules: CUDA C++ programming guide, "CUDA environment variables".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.gpus.nvml import Gpu, list_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

VISIBLE = "CUDA_VISIBLE_DEVICES"
ALLOCATION = "HELPERS_ALLOCATION"
"""The Slurm job in which a local run was submitted: numbers of GPUs mean something only within it."""

_NONE = {"", "NoDevFiles", "-1"}  # CUDA ends the list there


def usable_gpus(environment: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that a process with this environment may use, in the order in which it sees them.

    Where there is no NVIDIA driver to ask, those that the variable names, by its words alone.

    Raises:
        InvalidRequest: If the variable names what this machine does not have, or the driver does not work.
    """
    there, names = list_gpus(), _names(environment)
    if names is None:
        return [] if "SLURM_JOB_ID" in environment or ALLOCATION in environment else there
    if not there:
        scope = environment.get("SLURM_JOB_ID") or environment.get(ALLOCATION) or ""
        return [Gpu(uuid=f"{scope}:{name}" if scope else name, index=name) for name in dict.fromkeys(names)]
    found = [gpu for name in names for gpu in _named(name, there, environment[VISIBLE])]
    return list({gpu.uuid: gpu for gpu in found}.values())


def as_variable(uuids: list[str]) -> str:
    """Return the value of the variable that shows these GPUs and no others."""
    return ",".join(uuid.rpartition(":")[2] for uuid in uuids)


def _names(environment: Mapping[str, str]) -> list[str] | None:
    """Return the words of the variable, as far as CUDA reads it; None where it is not set."""
    if VISIBLE not in environment:
        return None
    names = [name.strip() for name in environment[VISIBLE].split(",")]
    return names[: next((place for place, name in enumerate(names) if name in _NONE), len(names))]


def _named(name: str, there: list[Gpu], value: str) -> list[Gpu]:
    """Return the GPU of that name: the driver's number, a UUID or its beginning; of a cut card all slices."""
    if name.isdecimal():
        found = [gpu for gpu in there if gpu.index.partition(":")[0] == str(int(name))]
    else:
        found = [gpu for gpu in there if gpu.uuid == name]
        found = found or [gpu for gpu in there if gpu.uuid.startswith(name)]
        if len(found) > 1:
            raise InvalidRequest(
                f"{VISIBLE} is {value!r}: {name} is the beginning of several UUIDs.", hint="nvidia-smi -L"
            )
    if not found:
        raise InvalidRequest(
            f"{VISIBLE} is {value!r}: there is no GPU {name} on this machine, which has "
            f"{', '.join(f'{gpu.index} ({gpu.uuid})' for gpu in there)}.",
            hint=f"unset {VISIBLE}",
        )
    return found
