"""Read a conda environment file of elsewhere, and say each of its lines as the one list does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.project.environment.requirements import CONDA, PYPI_NAMES

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_EXACT = re.compile(r"(?P<version>\d[\w.+!*]*)(?:\s+\S+)?")  # conda's short form: version, build
_FUZZY = re.compile(r"=(?P<version>[\w.+!*]+)(?:=\S+)?")
_ONE = re.compile(r"(?:[<>]=?|[!=~]=)[\w.+!*-]+")
_VERSIONS = re.compile(r"[=<>!~*\d\[].*|")
_WITH_BUILD = re.compile(r"[^=<>!~\s]+=[^=]+=[^=]+")
_MOST_WITH_BUILD = 20  # somebody may pin a few; `conda env export` pins each
_ADDED_ALWAYS = {"pip", "git"}
_WHEELS_BRING = {
    "cuda", "cuda-libraries", "cuda-runtime", "cuda-toolkit", "cuda-version", "cudatoolkit", "cudnn", "nccl",
    "pytorch-cuda", "pytorch-mutex",
}  # fmt: skip
# The package index has these, too. What needs torch must not stay with conda, whose builds bring a torch of their own.
_PYTHON = {
    "accelerate", "black", "click", "datasets", "einops", "hydra-core", "ipykernel", "ipython", "jupyter", "lightning",
    "mlflow", "notebook", "omegaconf", "pytest", "pytorch-lightning", "pyyaml", "requests", "rich", "ruff",
    "safetensors", "snakemake", "tensorboard", "timm", "tokenizers", "torchaudio", "torchmetrics", "torchvision",
    "tqdm", "transformers", "typer", "wandb",
}  # fmt: skip


@dataclass(kw_only=True)
class CondaLines:
    """What a conda environment file asks for.

    Args:
        requirements: As the list in ``pyproject.toml`` writes them.
        conda_only: What may be no Python at all, in conda's notation.
        pip: Of its part for pip, as they stand.
        left: What the list has no place for, with the reason.
    """

    requirements: list[str] = field(default_factory=list)
    conda_only: list[str] = field(default_factory=list)
    pip: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def read_conda_file(file: Path) -> CondaLines:
    """Return the lines of an ``environment.yml``, sorted by where they belong.

    What nothing shows to be Python stays with conda: that is right wherever conda makes the environment.

    Raises:
        InvalidRequest: If the file cannot be read, or is none of conda's; if PyYAML is not installed; or if the file
            lists all that was installed, which hides what was asked for.
    """
    document = _read(file)
    if sum(_WITH_BUILD.fullmatch(str(line)) is not None for line in document["dependencies"]) > _MOST_WITH_BUILD:
        raise InvalidRequest(
            f"{file} lists all that was installed, with builds, not what was asked for.",
            hint=f"conda env export --from-history > {file.name}   (or take out what you do not import)",
        )
    found = CondaLines()
    for line in document["dependencies"]:
        if isinstance(line, dict):
            found.pip += [str(one) for one in line.get("pip") or ()]
        else:
            _sort(str(line).strip().rpartition("::")[2], found)
    channels = [str(one) for one in document.get("channels") or ()]
    found.left += [f"channel {one}" for one in channels if one not in {"conda-forge", "defaults", "nodefaults"}]
    found.left += [f"variable {one} (setup in [tool.helpers.defaults])" for one in document.get("variables") or ()]
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise InvalidRequest(
            f"PyYAML, which reads {file.name}, is not installed.", hint="python -m pip install pyyaml"
        ) from None
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}.", hint="ls *.yml") from error
    if not isinstance(document, dict) or not isinstance(document.get("dependencies"), list):
        raise InvalidRequest(f"{file} is no environment file of conda's.", hint="it has: dependencies: [numpy]")
    return document


def _sort(text: str, found: CondaLines) -> None:
    match = _NAME.match(text)
    name = match[0].lower() if match else ""
    rest = text[len(name) :].strip()
    if not name or not _VERSIONS.fullmatch(rest):
        found.left.append(f"{text} (no package)")
    elif name == "python":
        found.left.append(f"{text} (requires-python says which)")
    elif name in _WHEELS_BRING:
        found.left.append(f"{text} (torch's wheels bring it; another build: cuda in [tool.helpers.environment])")
    elif name not in _ADDED_ALWAYS:
        known, versions = _python_name(name), _as_python(rest)
        if known is None or versions is None:
            found.conda_only.append(text)
        else:
            found.requirements.append(f"{known}{versions}")


def _python_name(name: str) -> str | None:
    """Return what the package index calls a package of conda's; None where nothing shows that it is Python."""
    if name in PYPI_NAMES or name in CONDA or name in _PYTHON:
        return PYPI_NAMES.get(name, name)
    try:
        distribution(name)
    except PackageNotFoundError:
        return None
    return name


def _as_python(versions: str) -> str | None:
    """Return conda's versions in pip's notation; None for what pip cannot say, such as ``>=1|<0.5``."""
    if (match := _FUZZY.fullmatch(versions)) is not None:
        stem = match["version"].rstrip("*").rstrip(".")
        return f"=={stem}.*" if stem else ""
    if (match := _EXACT.fullmatch(versions)) is not None:
        return f"=={match['version']}"
    parts = [part.strip().replace(" ", "") for part in versions.split(",")] if versions else []
    return ",".join(parts) if all(map(_ONE.fullmatch, parts)) else None
