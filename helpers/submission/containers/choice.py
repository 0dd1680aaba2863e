"""Choose the engine of a container, and what of this machine it sees."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from helpers.config import find_project
from helpers.config.folders import fill_in, storage_folder
from helpers.errors import InvalidRequest
from helpers.runtime.raw_data.area import RAW
from helpers.submission.containers import pyxis
from helpers.submission.containers.apptainer import Apptainer
from helpers.submission.containers.charliecloud import Charliecloud
from helpers.submission.containers.container import LIBRARY, Bind, Container, Engine, in_order
from helpers.submission.raw_data import areas_of
from helpers.submission.resources.settings import THE_CALL, CompleteSettings

if TYPE_CHECKING:
    from helpers.submission.surroundings import JobPlace

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Apptainer(), Charliecloud(), pyxis.Pyxis())}

_SQUASHED = (".sqfs", ".squashfs")
_STORED = ("data", "caches", "archive", "scratch")


def read_container(complete: CompleteSettings, **place: Unpack[JobPlace]) -> Container | None:
    """Return the container that a call asks for; None where it asks for none.

    Args:
        complete: The call's keywords, with the settings.
        **place: Where the job runs.

    Raises:
        InvalidRequest: If the image or the engine is missing, or a bind is none.
    """
    asked = complete.values.get("container")
    if asked is None:
        return None
    if not isinstance(asked, str | Path) or not str(asked).strip():
        raise InvalidRequest(f"container is an image; got {asked!r}.", hint='container="image.sif"')
    if place["cluster"] == "inline":
        if complete.origins.get("container") != THE_CALL:
            return None  # a project's setting is for its jobs
        raise InvalidRequest(
            'cluster="inline" runs in this very process, which is in no container.', hint='cluster="local"'
        )
    directory = place["directory"]
    image = _image_path(str(asked), complete, directory)
    engine, why = _choose(image, complete)
    _check_engine(engine, complete, place["cluster"])
    engine.check_image(image)
    print(f"helpers: in the container {image}, by {engine.name} ({why})", file=sys.stderr)
    return Container(
        engine=engine,
        image=image,
        python=complete.values.get("container_python", "python3"),
        binds=in_order(_binds(complete, directory, place["runs"])),
        directory=str(directory),
        gpus=bool(place["gpus"]),
        options=_list(complete.values.get("container_options")),
    )


def _image_path(asked: str, complete: CompleteSettings, directory: Path) -> str:
    """Return an address as it stands, and a path as a whole one: from the current folder, or the setting's project."""
    if "://" in asked or "#" in asked:
        return asked
    origin = complete.origins.get("container", "")
    base = directory if origin == THE_CALL else (find_project(directory) or directory)
    return os.path.abspath(base / fill_in(asked, f"{origin}: container"))  # noqa: PTH100 -- without "..", links stay


def _choose(image: str, complete: CompleteSettings) -> tuple[Engine, str]:  # noqa: PLR0911 -- one for each form
    """Return the engine, and why it is that one."""
    asked = complete.values.get("container_engine")
    if asked is not None:
        return ENGINES[asked], complete.origins["container_engine"]
    apptainer = ENGINES["apptainer"]
    has_apptainer = shutil.which(apptainer.program) is not None
    if image.startswith("docker://"):
        if has_apptainer and not pyxis.is_configured():
            return apptainer, f"an address, and {apptainer.program} is on PATH"
        return ENGINES["pyxis"], "the address of an image"
    if "#" in image or image.endswith(".sqsh"):
        return ENGINES["pyxis"], "an image of enroot"
    if image.endswith(_SQUASHED) or Path(image).is_dir():
        if has_apptainer and shutil.which("ch-run") is None:
            return apptainer, f"{apptainer.program} is on PATH"
        return ENGINES["charliecloud"], "a root file system"
    return apptainer, "by the form of its name"


def _check_engine(engine: Engine, complete: CompleteSettings, cluster: str) -> None:
    if engine.name == "pyxis" and cluster != "slurm":
        raise InvalidRequest(
            "Pyxis is a part of Slurm, and this run stays on this machine.", hint='container="image.sif"'
        )
    brought_along = {"setup", "modules"} & set(complete.values)  # its module may be loaded by the job
    if shutil.which(engine.program) is None and not brought_along:
        raise InvalidRequest(
            f"There is no {engine.program} on PATH, which runs this container.",
            hint=f'setup=["module load {engine.name}"]; or another engine: HELPERS_CONTAINER_ENGINE='
            f"{'|'.join(name for name in ENGINES if name != engine.name)}",
        )


def _binds(complete: CompleteSettings, directory: Path, runs: Path) -> list[Bind]:
    import helpers

    project = find_project(directory)
    library = Path(helpers.__file__).parent
    stored = [storage_folder(name, directory, complete.settings) for name in _STORED]
    seen = [directory, runs, *([project] if project else []), *(folder for folder in stored if folder)]
    binds = [Bind(source=str(folder), target=str(folder)) for folder in seen if folder == runs or folder.is_dir()]
    binds.append(Bind(source=str(library), target=f"{LIBRARY}/{library.name}", read_only=True))
    binds += [Bind(source=str(folder), target=str(folder), read_only=True) for folder in _raw_data(complete, project)]
    return [*binds, *(_own_bind(text, complete) for text in _list(complete.values.get("container_binds")))]


def _raw_data(complete: CompleteSettings, project: Path | None) -> list[Path]:
    """Return the folders of raw data, which nothing in the container can change."""
    if project is None:
        return []
    areas, _ = areas_of(project, complete.settings)
    return [folder for folder in {project / "data" / RAW, *(area.root for area in areas)} if folder.is_dir()]


def _own_bind(text: str, complete: CompleteSettings) -> Bind:
    """Read ``source[:target][:ro]``."""
    origin = f"{complete.origins.get('container_binds', 'container_binds')}: container_binds"
    words = text.split(":")
    read_only = len(words) > 1 and words[-1] in {"ro", "rw"}
    mode = words.pop() if read_only else "rw"
    if not 1 <= len(words) <= 2 or not all(words):  # noqa: PLR2004 -- source and target
        raise InvalidRequest(
            f"{origin} is source:target:ro; got {text!r}.", hint='container_binds = ["/data:/data:ro"]'
        )
    source = fill_in(words[0], origin).absolute()
    if not source.exists():
        raise InvalidRequest(f"{origin}: there is no {source} here.", hint=f"mkdir {source}, or take it out")
    target = words[1] if len(words) > 1 else str(source)
    if not target.startswith("/"):
        raise InvalidRequest(f"{origin}: a target is a whole path; got {target!r}.", hint=f"{source}:/{target}")
    return Bind(source=str(source), target=target, read_only=mode == "ro")


def _list(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
