"""Submit one job for each number of GPUs, one after another, so that they do not disturb each other."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from helpers.errors import HelpersError
from helpers.runtime.gpus.visible import usable_gpus
from helpers.submission.clusters.choice import choose_cluster, slurm_is_configured
from helpers.submission.plan import make_plan
from helpers.submission.resources.settings import complete_settings
from helpers.submission.submit import Executor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.doctor.scaling.workload import Workload

_IMAGES, _SIDE = 256, 256


def measure(**keywords: Any) -> dict[str, Any]:
    """Train, in the job; see :func:`helpers.training.scaling.measuring.measure`."""
    from helpers.training.scaling.measuring import measure as train

    return train(**keywords)


def run_all(
    counts: list[int], workload: Workload, *, settings: dict[str, Any], tell: Callable[[str], None]
) -> dict[int, dict[str, Any]]:
    """Return what each job has found, by its number of processes; ``{"error": …}`` of one that failed.

    What could never run is told before the first one is queued, and left out.

    Args:
        counts: How many GPUs each job gets; where there are none, how many processes.
        workload: What they train.
        settings: Other keywords of ``submit``.
        tell: Is told of each job, for people.
    """
    number = "gpus" if there_are_gpus(settings.get("cluster")) else "processes"
    asked = {count: {"name": "scaling", **settings, number: count} for count in counts}
    refused = {count: words for count in counts if (words := _why_never(asked[count], workload))}
    for count, words in refused.items():
        tell(f"{number}={count} is left out: {words}")
    found: dict[int, dict[str, Any]] = {count: {"error": words} for count, words in refused.items()}
    left = [count for count in counts if count not in refused]
    for place, count in enumerate(left, 1):
        tell(f"{place} of {len(left)}: {number}={count}")
        found[count] = _run(asked[count], workload)
    return {count: found[count] for count in counts}


def _why_never(asked: dict[str, Any], workload: Workload) -> str:
    """Return why such a job could never run; empty where it could."""
    try:
        complete = complete_settings(asked)
        cluster = None if complete.cluster == "inline" else choose_cluster(complete.cluster)
        make_plan(measure, [((), workload.keywords())], cluster=cluster, complete=complete)
    except HelpersError as error:
        return _in_one_line(error)
    return ""


def _run(asked: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Submit one job and wait for what it finds."""
    try:
        job = Executor(**asked).submit(measure, **workload.keywords())
    except HelpersError as error:
        return {"error": _in_one_line(error)}
    try:
        return job.result()
    except KeyboardInterrupt:
        with contextlib.suppress(HelpersError):
            job.cancel()
        raise
    except Exception as error:  # noqa: BLE001 -- the job's own, of whatever class
        return {"error": f"{type(error).__name__}: {error} (helpers show {job.id})".replace("\n", " ")}


def _in_one_line(error: HelpersError) -> str:
    return f"{error.message} {error.hint}".strip().replace("\n", " ")


def there_are_gpus(cluster: str | None) -> bool:
    """Say whether a job can ask for GPUs: on Slurm, or on this machine, where it has some."""
    if cluster != "local" and slurm_is_configured():
        return True
    return bool(usable_gpus(os.environ))


def make_images(folder: Path) -> None:
    """Make images to read where there are none: JPEG where Pillow is installed, else packed arrays.

    Smooth waves with some noise, so that they are about as large as photographs of their size, and take as long to
    decode.
    """
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    steps = np.linspace(0, 6, _SIDE)
    for number in range(_IMAGES):
        if any((folder / f"{number:03}{suffix}").exists() for suffix in (".jpg", ".npz")):
            continue
        phases = random.uniform(0, 6, (2, 3))
        waves = np.sin(steps[:, None, None] + phases[0]) + np.sin(steps[None, :, None] + phases[1])
        noisy = 127 + 50 * waves + random.normal(0, 12, (_SIDE, _SIDE, 3))
        _write_image(folder / f"{number:03}", noisy.clip(0, 255).astype(np.uint8))


def _write_image(path: Path, image: Any) -> None:
    try:
        from PIL import Image
    except ImportError:
        import numpy as np

        np.savez_compressed(path.with_suffix(".npz"), image=image)
    else:
        Image.fromarray(image).save(path.with_suffix(".jpg"), quality=90)
