"""What is typed after the function becomes the value that was meant, or is refused."""

import enum
from pathlib import Path
from typing import Any, Literal

import pytest

from helpers.cli.values import (
    options_instead_of_keywords,
    parse_call,
    parse_slurm_options,
    parse_value,
    split_words,
)
from helpers.errors import InvalidRequest
from helpers.submission.arguments import check_call


def train(data: Any = None, lr: float = 0.1, version: str = "", gpu_kind: str = "") -> None:
    """Stand for a user's function."""


def takes_anything(**options: Any) -> None:
    """Stand for a function without names of its own."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("4", 4),
        ("-1", -1),
        ("[1,2]", [1, 2]),
        ("{'a': (1,)}", {"a": (1,)}),
        ("None", None),
        ("true", True),
        ("false", False),
        ("True", True),
        ("foo", "foo"),
        ("'4'", "4"),
        ("a=b", "a=b"),
        ("data/train.csv", "data/train.csv"),
        ("1if", "1if"),
        ("007", "007"),
        ("[a,b]", "[a,b]"),
        ("", ""),
    ],
)
def test_a_value_is_a_literal_where_it_is_one(text: str, value: object) -> None:
    """Nobody quotes twice in a shell, and a number must not arrive as text."""
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_a_parameter_for_text_gets_the_text() -> None:
    """A version 1.10 that became the number 1.1 would be another version."""
    assert parse_call(train, split_words(["version=1.10", "lr=1"])) == ((), {"version": "1.10", "lr": 1})


def test_words_without_a_name_are_positional() -> None:
    """A path is typed as a path, also one with an equals sign deeper in."""
    assert parse_call(train, split_words(["data/a=1.csv", "2", "lr=3"])) == (("data/a=1.csv", 2), {"lr": 3})


def test_a_positional_parameter_for_text_gets_the_text() -> None:
    """How an argument is given does not change its kind."""
    assert parse_call(train, split_words(["1", "2", "1.10"]))[0] == (1, 2, "1.10")


def test_a_name_given_twice_is_refused() -> None:
    """One of the two would be lost without a word."""
    with pytest.raises(InvalidRequest, match="lr is given twice: lr=1 and lr=2"):
        split_words(["lr=1", "lr=2"])


@pytest.mark.parametrize(
    ("word", "hint"), [("gpus=4", "--gpus 4"), ("gpu=4", "--gpus 4"), ("dry_run=1", "--dry-run 1")]
)
def test_an_option_written_as_an_argument_is_pointed_out(word: str, hint: str) -> None:
    """In Python it is gpus=4; the hint of the library would name that again."""
    with pytest.raises(InvalidRequest) as refused:
        parse_call(train, split_words([word]))
    assert refused.value.hint == hint


def test_an_option_is_pointed_out_also_where_the_function_takes_anything() -> None:
    """Four GPUs that became an argument of the function would be none."""
    with pytest.raises(InvalidRequest, match="no parameter 'gpus'"):
        parse_call(takes_anything, split_words(["gpus=4"]))


def test_a_name_near_an_option_is_left_to_a_function_that_takes_anything() -> None:
    """Only a name that is an option's own is in doubt there."""
    assert parse_call(takes_anything, split_words(["times=4"])) == ((), {"times": 4})


def test_an_argument_that_is_remembered_wrongly_is_no_option() -> None:
    """``--setup`` was suggested for ``steps``: it runs what it is given as a shell line."""

    def quick(a: int, *, fail: bool = False) -> None:
        """Stand for a user's function."""

    args, kwargs = parse_call(quick, split_words(["steps=abc"]))
    with pytest.raises(InvalidRequest) as refused:
        check_call(quick, args, kwargs)
    assert refused.value.hint == "its arguments are: a, fail"


class Colour(enum.Enum):
    """Stand for a user's enumeration."""

    RED = "r"
    BLUE = 2


def annotated(
    a: int = 0,
    lr: "float" = 0.1,
    *,
    fast: bool = False,
    place: Path = Path(),
    how: Literal["sum", 2] = "sum",
    colour: Colour = Colour.RED,
    some: int | None = None,
) -> None:
    """Stand for a user's function."""


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=3", 3),
        ("a=None", None),
        ("lr=1", 1),
        ("lr=inf", float("inf")),
        ("fast=true", True),
        ("fast=0", 0),
        ("place=007", Path("007")),
        ("how=sum", "sum"),
        ("how=2", 2),
        ("colour=RED", Colour.RED),
        ("colour=r", Colour.RED),
        ("colour=2", Colour.BLUE),
        ("some=abc", "abc"),
    ],
)
def test_a_value_is_read_as_its_parameter_is_annotated(word: str, value: object) -> None:
    """What an annotation leaves open stays as it was typed."""
    read = parse_call(annotated, split_words([word]))[1]
    assert list(read.values()) == [value]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("a=abc", "a is an int; got 'abc'."),
        ("a=1.5", "a is an int; got '1.5'."),
        ("a=true", "a is an int; got 'true'."),
        ("abc", "a is an int; got 'abc'."),
        ("lr=fast", "lr is a float; got 'fast'."),
        ("fast=yes", "fast is a bool; got 'yes'."),
        ("how=mean", "how is one of sum, 2; got 'mean'."),
        ("colour=green", "colour is one of RED, BLUE, r, 2; got 'green'."),
    ],
)
def test_a_value_of_another_kind_is_refused_at_once(word: str, message: str) -> None:
    """It failed in the job, hours later."""
    with pytest.raises(InvalidRequest) as refused:
        parse_call(annotated, split_words([word]))
    assert refused.value.message == message


def test_sbatch_options_stay_text() -> None:
    """A date or a list of nodes is Slurm's to read; only flags and removals have words of their own."""
    words = ["constraint=h100", "begin=16:00", "exclude=1,2", "exclusive", "--hold=true", "mail-user=none"]
    expected = {
        "constraint": "h100", "begin": "16:00", "exclude": "1,2", "exclusive": True, "hold": True, "mail-user": None,
    }  # fmt: skip
    assert parse_slurm_options(words) == expected


def test_an_sbatch_option_without_a_name_is_refused() -> None:
    """The batch script would hold a line that sbatch cannot read."""
    with pytest.raises(InvalidRequest, match="by its long name; got '=h100'"):
        parse_slurm_options(["=h100"])


@pytest.mark.parametrize(
    ("for_python", "for_the_shell"),
    [
        ('gpus=4 or gpus="a100:4"', "--gpus 4 or --gpus a100:4"),
        ('mem="64G"', "--mem 64G"),
        ("submit(…, dry_run=True) shows the script", "--dry-run shows the script"),
        ('slurm={"mail-type": "END"}', "--slurm mail-type=END"),
        ("use gpus= instead", "use --gpus instead"),
        ('setup=["module load R"]', "--setup 'module load R'"),
        ('total_time="7d"', "--total-time 7d"),
        ("submit(…, processes=2)  # gpus left out", "--processes 2  # gpus left out"),
        ("it is set by requeue=False", "it is set by --no-requeue"),
        ("make a Checkpointer, or submit with requeue=True", "make a Checkpointer, or submit with --requeue"),
        ('submit_array(train, grid(), gpus="2g.10gb:1")', 'submit_array(train, grid(), gpus="2g.10gb:1")'),
        ("did you mean lr?", "did you mean lr?"),
        ("squeue --name=x", "squeue --name=x"),
        ("try it on its own: bash -c 'mem=4 make'", "try it on its own: bash -c 'mem=4 make'"),
    ],
)
def test_hints_can_be_pasted_into_the_shell(for_python: str, for_the_shell: str) -> None:
    """The library's hints are Python; here a person types options."""
    assert options_instead_of_keywords(for_python) == for_the_shell
