"""A call that cannot work is refused where it was written, with the word that was meant."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from helpers import Executor, InvalidRequest, submit
from helpers.submission.arguments import RESERVED, describe_arguments, function_name, qualified_name, split_keywords


def train(lr: float, epochs: int = 1, **options: Any) -> None:
    """Accept anything."""


def fit(lr: float, epochs: int = 1) -> None:
    """Accept two arguments."""


def plan_time(time: float) -> None:
    """Have a parameter that submit keeps for itself."""


def dry(function: Any, *args: Any, **keywords: Any) -> Any:
    return submit(function, *args, cluster="slurm", dry_run=True, **keywords)


def test_the_reserved_keywords_are_those_of_the_documentation() -> None:
    """Each further one could take an argument away from somebody's function."""
    assert (
        *("gpus", "nodes", "processes", "cpus", "mem", "time", "total_time", "partition", "account", "qos", "name"),
        *("after", "profile", "cluster", "container", "setup", "launcher", "requeue", "slurm", "dry_run"),
    ) == RESERVED


def test_keywords_are_divided_between_the_library_and_the_function() -> None:
    """What is not reserved goes to the function, also where it takes anything."""
    assert split_keywords(train, {"gpus": 4, "lr": 0.1, "depth": 3}) == ({"gpus": 4}, {"lr": 0.1, "depth": 3})


@pytest.mark.parametrize(
    ("keywords", "suggestion"),
    [({"lr": 0.1, "gpu": 4}, "did you mean gpus?"), ({"lr": 0.1, "epoch": 4}, "did you mean epochs?")],
)
def test_a_misspelt_keyword_is_answered_by_the_nearest(keywords: dict[str, float], suggestion: str) -> None:
    """A job without its GPUs would start, and crawl."""
    with pytest.raises(InvalidRequest, match=suggestion.replace("?", r"\?")):
        dry(fit, **keywords)


def test_a_missing_argument_is_refused_before_anything_is_queued() -> None:
    """In the job it would be found hours later."""
    with pytest.raises(InvalidRequest, match="missing a required argument: 'lr'"):
        dry(fit)


def test_a_parameter_of_a_reserved_name_is_refused_with_two_ways_out() -> None:
    """The value would silently go to Slurm instead of the function."""
    with pytest.raises(InvalidRequest) as caught:
        dry(plan_time, time=3)
    assert "Executor(time=…).submit(plan_time, time=…)" in caught.value.hint
    assert "functools.partial(plan_time, time=…)" in caught.value.hint


def test_a_partial_that_binds_the_reserved_name_is_accepted() -> None:
    """One of the two ways out."""
    assert "--time=5" in str(dry(functools.partial(plan_time, time=3.0), time=5))


def test_an_executor_gives_every_argument_to_the_function() -> None:
    """The other way out."""
    assert "--time=5" in str(Executor(cluster="slurm", dry_run=True, time=5).submit(plan_time, time=3.0))


def test_an_executors_misspelt_keyword_is_answered_by_the_nearest() -> None:
    """It is not a keyword of any function."""
    with pytest.raises(InvalidRequest, match="did you mean gpus"):
        Executor(gpu=4)


@pytest.mark.parametrize("function", [min, print, dict, int, functools.partial(pow, 2), lambda x: x])
def test_builtins_classes_partials_and_lambdas_can_be_submitted(function: Any) -> None:
    """Some of them have no signature that Python can show."""
    assert "srun" in str(dry(function, [1]))


async def fetch(lr: float = 1) -> float:
    """Run when it is awaited."""
    return lr


def batches(lr: float = 1) -> Iterator[float]:
    """Run when its values are taken."""
    yield lr


async def stream(lr: float = 1) -> AsyncIterator[float]:
    """Both."""
    yield lr


class Batches:
    """Something whose call is a generator function."""

    def __call__(self) -> Iterator[int]:
        """Run when its values are taken."""
        yield 1


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (fetch, "coroutine"),
        (functools.partial(fetch, 1), "coroutine"),
        (batches, "generator"),
        (stream, "generator"),
        (Batches(), "generator"),
    ],
)
def test_a_function_of_which_a_call_runs_nothing_is_refused(function: Any, word: str) -> None:
    """The job would wait for its GPUs, do nothing with them, and then have no result that could be sent back."""
    with pytest.raises(InvalidRequest, match=f"is a {word} function"):
        dry(function)


def test_a_class_with_such_a_method_is_a_class() -> None:
    """Its call makes an object of it, which takes no value out."""
    assert "srun" in str(dry(Batches))


def test_a_result_in_place_of_a_function_is_refused() -> None:
    """``submit(train())`` has trained already, on the login node."""
    with pytest.raises(InvalidRequest, match="takes a function"):
        dry(fit(0.1))


@pytest.mark.parametrize(
    ("function", "name"),
    [(fit, "fit"), (functools.partial(fit, 1), "fit"), (lambda: 1, "lambda"), (len, "len")],
)
def test_a_function_has_a_short_name(function: Any, name: str) -> None:
    """It becomes a folder."""
    assert function_name(function) == name


def test_a_function_has_a_full_name_for_the_records() -> None:
    """Two projects have a ``train`` each."""
    assert qualified_name(functools.partial(fit, 1)) == f"{__name__}.fit"


def test_long_arguments_are_shortened_for_people() -> None:
    """A table as argument would fill run.json."""
    described = describe_arguments(("x" * 1000,), {"lr": 0.1})
    assert (len(described[0]) <= 80, described[1]) == (True, "lr=0.1")


def test_a_sea_of_bytes_is_described_without_being_written_out() -> None:
    """Twenty items that share 300 MB took minutes and gigabytes before they were refused for their size."""
    assert describe_arguments((bytes(300_000),), {}) == [f"{bytes(20)!r}… (300000 bytes)"]
    assert describe_arguments((b"few", bytearray(b"few")), {}) == ["b'few'", "bytearray(b'few')"]
