"""Set in a job what sends downloads and caches where they belong, unless the user has set it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.config import storage_folder
from helpers.config.schema import variable_of

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.config import Settings

_CACHES = {
    "TORCH_HOME": "torch",
    "HF_HOME": "huggingface",
    "PIP_CACHE_DIR": "pip",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
}
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "PIP_NO_INDEX": "1",
}
_TRAINING = ("precision", "shard", "report_network")  # settings that ``helpers.training`` reads in the job


def variables_of(directory: Path, settings: Settings, *, on_cluster: bool) -> dict[str, str]:
    """Return the variables of a job that nobody needs to set by hand.

    Args:
        directory: The folder that is worked in.
        settings: Those that hold there.
        on_cluster: Whether the job runs on the nodes of a cluster, which often reach no other network.

    Raises:
        InvalidRequest: If a variable in ``storage.caches`` is not set.
    """
    offline = _OFFLINE if on_cluster and settings.get("offline") else {}
    return cache_variables(directory, settings) | offline | _training_variables(settings)


def _training_variables(settings: Settings) -> dict[str, str]:
    said = {variable_of(key): settings.get(key) for key in _TRAINING}
    return {
        name: str(int(value)) if isinstance(value, bool) else value
        for name, value in said.items()
        if name is not None and value is not None
    }


def cache_variables(directory: Path, settings: Settings) -> dict[str, str]:
    """Return the variables that send caches to ``storage.caches``; none where no setting names it.

    Raises:
        InvalidRequest: If a variable in it is not set.
    """
    caches = storage_folder("caches", directory, settings)
    return {} if caches is None else {name: str(caches / folder) for name, folder in _CACHES.items()}
