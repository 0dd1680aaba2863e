"""A call that is too large to be sent is refused, with what makes it so."""

from pathlib import Path

import pytest

from helpers import InvalidRequest, submit, submit_array
from helpers.submission.source import sizes
from tests.unit.submission import functions

MIB = 2**20


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules, with amounts that a test can bear."""
    monkeypatch.setattr(sizes, "WARNED_MB", 2)
    monkeypatch.setattr(sizes, "REFUSED_MB", 8)


def test_a_huge_argument_is_refused_with_its_size_and_a_way_out(project: Path) -> None:
    """C07 (e): written, read by each rank, and it looks like a hang."""
    with pytest.raises(InvalidRequest, match=r"argument 0: 10 MiB(.|\n)*pass the path of a file"):
        submit(len, b"x" * 10 * MIB, cluster="local")
    assert not (project / "runs").exists()


def test_a_large_argument_is_warned_of_and_sent(capfd: pytest.CaptureFixture[str]) -> None:
    """It may be what is wanted."""
    assert submit(len, b"x" * 3 * MIB, cluster="local").result(240) == 3 * MIB
    assert "argument 0: 3 MiB" in capfd.readouterr().err


def test_an_arrays_elements_count_together(project: Path) -> None:
    """C07 (e): twenty copies of one argument are one large folder."""
    with pytest.raises(InvalidRequest, match=r"8 MiB as a pickle for the first 16 of 20 elements(.|\n)*pass the path"):
        submit_array(len, [b"x" * (MIB // 2)] * 20, cluster="local")
    assert not (project / "runs").exists()


def test_a_variable_that_the_function_drags_along_is_named() -> None:
    """A global of a script goes by value, with the function that uses it."""
    table = b"x" * 10 * MIB
    with pytest.raises(InvalidRequest, match="the function lambda with the variables that it uses: 10 MiB"):
        submit(lambda: len(table), cluster="local")


def test_a_small_call_is_not_looked_at_again(capfd: pytest.CaptureFixture[str]) -> None:
    """No words about what is as it should be."""
    submit(functions.add, 1, cluster="local").result(240)
    assert "MiB" not in capfd.readouterr().err
