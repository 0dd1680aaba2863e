"""Write what is made from the one list: conda's file, and the container definition."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.project.environment.requirements import Dependencies

CONDA_FILE = "environment.yml"
CONTAINER_FILE = "container.def"

_SIGN = b"# Made by `helpers env sync"
_MADE = "# Made by `helpers env sync` from pyproject.toml, the one list of dependencies: change that, and run it again."
_CONTAINER = """{made}
#
#   apptainer build image.sif container.def
#   helpers submit --container image.sif …
#
# That is: apptainer exec --nv --bind "$PWD/data/raw:$PWD/data/raw:ro" image.sif python3 …
# With Charliecloud the same, as a folder:
#   ch-image pull {image} base && ch-convert base image && mkdir -p image/opt/slurm-torch-helpers/helpers
#   ch-run --write --set-env --bind="$PWD:/mnt" image -- micromamba install -y -n base -f /mnt/environment.yml
Bootstrap: docker
From: {image}

%labels
    torch {build}

%files
    environment.yml /opt/environment.yml

%post
    micromamba install --yes --name base --file /opt/environment.yml
    micromamba clean --all --yes
    mkdir -p /opt/slurm-torch-helpers/helpers

%environment
    export PATH=/opt/conda/bin:$PATH
    export PYTHONNOUSERSITE=1
"""


def conda_file(dependencies: Dependencies) -> str:
    """Return ``environment.yml``: conda's part first, then pip's, once.

    The texts are quoted as JSON, which is YAML, too.
    """
    conda = [f"python{dependencies.python}", "pip", "git", *dependencies.conda_only]
    conda += [one.as_conda() for one in dependencies.requirements if dependencies.by_conda(one)]
    pip = [one.text for one in dependencies.requirements if not dependencies.by_conda(one)]
    if dependencies.index:
        pip.insert(0, f"--extra-index-url {dependencies.index}")
    lines = [
        _MADE,
        "# conda first, then pip, always; nothing by conda after that:",
        "#   conda env create --file environment.yml, then activate it, then: make setup",
        f"name: {_quoted(dependencies.name)}",
        "channels: [conda-forge, nodefaults]",
        "dependencies:",
        *(f"  - {_quoted(one)}" for one in conda),
        *(["  - pip:"] if pip else []),
        *(f"      - {_quoted(one)}" for one in pip),
    ]
    return "\n".join(lines) + "\n"


def container_file(dependencies: Dependencies) -> str:
    """Return the container definition: the image of conda's own small program, and ``environment.yml`` in it."""
    build = dependencies.cuda or "as the package index has it"
    return _CONTAINER.format(made=_MADE, image=dependencies.image, build=build)


def is_made(file: Path) -> bool:
    """Say whether a file is one of those that ``helpers env sync`` makes, by its first line."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.readline().startswith(_SIGN)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
