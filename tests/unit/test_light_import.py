"""``import helpers`` costs next to nothing: it stands in every script, on every login node."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "submitit", "typer", "rich", "numpy", "cloudpickle", "psutil", "asyncio"}


@pytest.mark.parametrize(
    "statement",
    [
        "import helpers",
        "from helpers import submit",
        "from helpers import Executor, attach, current_run",
        "import helpers.errors, helpers.runtime.rank.rank",
    ],
)
def test_importing_the_library_loads_nothing_heavy(statement: str) -> None:
    """Alone torch takes seconds from a network file system."""
    code = f"{statement}; import sys; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert HEAVY & set(loaded.splitlines()) == set()


def test_every_public_name_can_be_had() -> None:
    """The table of names is not checked by anything else."""
    code = "import helpers; print([name for name in helpers.__all__ if getattr(helpers, name, None) is None])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """As from any module: ``hasattr`` and tab completion ask."""
    import helpers

    with pytest.raises(AttributeError, match="no attribute 'sumbit'"):
        helpers.sumbit  # noqa: B018
