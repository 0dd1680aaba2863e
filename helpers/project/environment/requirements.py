"""Read the one list of a project's dependencies, and say which of them conda installs and which pip."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import packaging.requirements
from packaging.utils import canonicalize_name

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.markers import Marker
    from packaging.specifiers import SpecifierSet

CONDA = (
    "cartopy", "dask", "fiona", "gdal", "geopandas", "h5py", "jupyterlab", "matplotlib", "mpi4py", "netcdf4",
    "networkx", "numba", "numpy", "opencv", "pandas", "pillow", "polars", "pyarrow", "pyproj", "pytables", "rasterio",
    "scikit-image", "scikit-learn", "scipy", "seaborn", "shapely", "statsmodels", "sympy", "xarray", "zarr",
)  # fmt: skip
"""What conda installs unless the project says otherwise: what is compiled against libraries that are no Python."""

_NAMES = {
    "graphviz": "python-graphviz", "msgpack": "msgpack-python", "opencv-python": "opencv", "tables": "pytables",
    "torch": "pytorch", "torch-geometric": "pyg",
}  # fmt: skip  # conda-forge's name where it is another
PYPI_NAMES = {conda: name for name, conda in _NAMES.items()}
"""The package index's name of what conda-forge calls otherwise."""

_CUDA = re.compile(r"cpu|cu\d{3}|rocm\d+(\.\d+)*")
_INDEX = "https://download.pytorch.org/whl"
_TABLE = "[tool.helpers.environment]"


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One line of the list.

    Args:
        text: As it is written.
        name: Normalised: lower case, with hyphens (PEP 503).
        extras: Of it, such as ``all``.
        versions: The bounds; those of ``>=1.26,<3``, or none.
        url: Where it comes from, in place of the package index.
        marker: When it counts, such as ``sys_platform == 'linux'``; None for always.
    """

    text: str
    name: str
    extras: frozenset[str]
    versions: SpecifierSet
    url: str
    marker: Marker | None

    @property
    def fits_conda(self) -> bool:
        """Whether conda's notation can say it."""
        is_literal = any(bound.operator == "===" for bound in self.versions)
        return not (self.extras or self.url or self.marker or is_literal)

    def as_conda(self) -> str:
        """Return it in conda's notation, the bounds in the order in which they are written."""
        bounds = sorted(map(str, self.versions), key=re.sub(r"\s+", "", self.text).find)
        return f"{_NAMES.get(self.name, self.name)}{','.join(bounds)}"


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """What a project needs.

    Args:
        name: Of the project.
        python: What ``requires-python`` says.
        requirements: In the list's order.
        conda: Names that conda installs.
        conda_only: What only conda has, in its notation: ``"ffmpeg"``, ``"r-base>=4"``.
        cuda: The build of torch, such as ``"cu126"``; empty for what the package index has.
        image: What the container is made from.
        is_listed: Whether ``[project]`` says the dependencies; not where another file does, such as ``setup.py``.
    """

    name: str
    python: str
    requirements: tuple[Requirement, ...]
    conda: frozenset[str] = field(default=frozenset(CONDA))
    conda_only: tuple[str, ...] = ()
    cuda: str = ""
    image: str = "mambaorg/micromamba:2.0.5"
    is_listed: bool = True

    @property
    def index(self) -> str:
        """Where that build of torch is; empty for the package index."""
        return f"{_INDEX}/{self.cuda}" if self.cuda else ""

    def by_conda(self, requirement: Requirement) -> bool:
        """Say whether conda installs it."""
        names = {requirement.name, _NAMES.get(requirement.name, requirement.name)}
        return requirement.fits_conda and bool(names & self.conda)


def parse_requirement(text: str, where: str) -> Requirement:
    """Read one requirement, in the notation of PEP 508.

    Raises:
        InvalidRequest: If it is none.
    """
    try:
        said = packaging.requirements.Requirement(text)
    except packaging.requirements.InvalidRequirement:
        said = None
    if said is None or not text.strip().isprintable():
        raise InvalidRequest(f"{where}: {text!r} is no requirement.", hint='"numpy>=1.26"')
    return Requirement(
        text=text.strip(),
        name=canonicalize_name(said.name),
        extras=frozenset(said.extras),
        versions=said.specifier,
        url=said.url or "",
        marker=said.marker,
    )


def read_dependencies(project: Path) -> Dependencies:
    """Read ``[project]`` and ``[tool.helpers.environment]`` of a project.

    Raises:
        InvalidRequest: If there is no list, or a line or a setting is wrong.
    """
    file = project / "pyproject.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidRequest(f"There is no {file}.", hint="run it in the folder of a project") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} is no valid TOML: {error}.") from error
    table = document.get("project", {})
    if not isinstance(table, dict):
        raise InvalidRequest(f"{file}: project is a table; got {table!r}.", hint="[project]")
    lines = table.get("dependencies", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InvalidRequest(f"{file}: dependencies is a list of requirements.", hint='dependencies = ["numpy>=1.26"]')
    own = _Settings(file, document.get("tool", {}).get("helpers", {}).get("environment", {}))
    return Dependencies(
        name=str(table.get("name", project.name)),
        python=re.sub(r"\s+", "", str(table.get("requires-python", ">=3.11"))),
        requirements=tuple(parse_requirement(line, f"{file}: dependencies") for line in lines),
        conda=frozenset(map(canonicalize_name, own.names("conda", CONDA))),
        conda_only=tuple(own.names("conda_only", ())),
        cuda=own.cuda(),
        image=own.text("image", Dependencies.image),
        is_listed="project" in document and "dependencies" not in table.get("dynamic", ()),
    )


def require_list(dependencies: Dependencies, project: Path) -> None:
    """Refuse what needs the one list where there is none.

    Raises:
        InvalidRequest: With the lines that begin one.
    """
    if not dependencies.is_listed:
        lines = f'[project]\nname = "{dependencies.name}"\nversion = "0.1.0"\ndependencies = []'
        raise InvalidRequest(
            f"{project / 'pyproject.toml'} has no list of dependencies.",
            hint=f"write one, or move it there from where it is, such as setup.py:\n{lines}",
        )


class _Settings:
    """The table ``[tool.helpers.environment]``, checked."""

    _KNOWN = ("conda", "conda_only", "cuda", "image")

    def __init__(self, file: Path, table: Any) -> None:
        self._file, self._table = file, table
        if not isinstance(table, dict):
            raise InvalidRequest(f"{file}: {_TABLE} is a table; got {table!r}.")
        for name in table:
            if name not in self._KNOWN:
                raise InvalidRequest(
                    f"{file}: there is no {name!r} in {_TABLE}.", hint=f"there are: {', '.join(self._KNOWN)}"
                )

    def names(self, key: str, default: tuple[str, ...]) -> list[str]:
        value = self._table.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(name, str) and name.isprintable() for name in value):
            raise InvalidRequest(f"{self._file}: {key} in {_TABLE} is a list of names.", hint=f'{key} = ["numpy"]')
        return value

    def text(self, key: str, default: str) -> str:
        value = self._table.get(key, default)
        if not isinstance(value, str) or not value.isprintable() or not value.strip():
            raise InvalidRequest(f"{self._file}: {key} in {_TABLE} is one line of text.", hint=f'{key} = "{default}"')
        return value

    def cuda(self) -> str:
        value = self._table.get("cuda", "")
        if value != "" and not (isinstance(value, str) and _CUDA.fullmatch(value)):
            raise InvalidRequest(
                f"{self._file}: cuda in {_TABLE} is a build of torch; got {value!r}.", hint='cuda = "cu126"'
            )
        return str(value)
