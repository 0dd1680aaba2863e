"""A sweep is written as it is thought: names and values."""

from typing import Any

import pytest

from helpers import InvalidRequest, call, grid
from helpers.submission.sweep import read_calls


def test_a_grid_is_every_combination_and_the_last_name_changes_fastest() -> None:
    """The order is that of nested loops, so that results can be reshaped."""
    calls = grid(lr=[1e-3, 3e-4], seed=range(2))
    assert [one.kwargs for one in calls] == [
        {"lr": 1e-3, "seed": 0},
        {"lr": 1e-3, "seed": 1},
        {"lr": 3e-4, "seed": 0},
        {"lr": 3e-4, "seed": 1},
    ]


@pytest.mark.parametrize("value", ["adam", 3, {"a": 1}, None])
def test_a_value_that_is_no_list_is_refused(value: Any) -> None:
    """``grid(optimizer="adam")`` would be four jobs, for a, d, a and m."""
    with pytest.raises(InvalidRequest, match="grid takes a list"):
        grid(optimizer=value)


def test_any_other_item_is_the_one_argument() -> None:
    """A tuple too: whoever means several arguments writes ``call``."""
    assert read_calls([(1, 2), call(3, b=4)]) == [(((1, 2),), {}), ((3,), {"b": 4})]


def test_an_empty_sweep_is_refused() -> None:
    """Slurm's word for it would be an invalid array specification."""
    with pytest.raises(InvalidRequest, match="nothing to submit"):
        read_calls([])


@pytest.mark.parametrize("items", ["adam", b"adam", 5, None, {"lr": 0.1}, call(1)])
def test_what_is_no_list_of_items_is_refused(items: Any) -> None:
    """``"adam"`` would be four jobs, a dictionary one for each key; of ``5`` Python says that it is not iterable."""
    with pytest.raises(InvalidRequest, match="An array takes a list of"):
        read_calls(items)


def test_a_dictionary_is_answered_by_a_grid_of_its_names() -> None:
    """What was meant."""
    with pytest.raises(InvalidRequest, match=r"grid\(lr=\[…\]\)"):
        read_calls({"lr": 0.1})
