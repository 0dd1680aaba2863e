"""Load what a function returned, in the process of whoever asks: not all that a job can make can be made here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from helpers.errors import JobFacts, ResultNotLoaded
from helpers.runtime.rank.call import load_result

if TYPE_CHECKING:
    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder


def value_of(run: RunFolder, job_id: str, description: Description, rank: int) -> Any:
    """Return what the function returned in ``rank``.

    Raises:
        ResultNotLoaded: If that cannot be loaded here; its cause is what was raised.
    """
    try:
        return load_result(run, rank)
    except Exception as error:
        raise ResultNotLoaded(
            f"{description.name} has succeeded, and what it returned cannot be loaded in this process: "
            f"{type(error).__name__}: {error}\n  file: {run.result(rank)}",
            facts=JobFacts(job_id=job_id, folder=str(run.path), rank=rank),
            hint=_hint(error, job_id, description),
        ) from error


def _hint(error: Exception, job_id: str, description: Description) -> str:
    """Return what to do; one who has no GPU, or lacks a module, may load it where the job ran."""
    if isinstance(error, PermissionError | FileNotFoundError):  # nothing was unpickled; its words say why
        return f"helpers show {job_id}"
    code = f'from helpers import attach; print(attach("{job_id}").result())'
    where = f"where it can be: {shlex.join([description.python, '-c', code])}"
    if isinstance(error, ImportError):
        return f"make the module importable here, or load it {where}"
    if "CUDA" in str(error):
        return f"return tensors of the CPU: tensor.cpu(); this one can be loaded with a GPU: {where.partition(': ')[2]}"
    return f"return numbers, arrays or paths; this one may be loaded {where}"
