"""A state is loaded in place, and what does not fit is refused."""

import dataclasses
import random
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from helpers.errors import InvalidRequest
from helpers.training.checkpoints.encoding import ObjectState
from helpers.training.checkpoints.state import StateMismatch, capture, find_generators, restore


@dataclasses.dataclass
class Best:
    value: float = 0.0


def test_objects_and_tensors_are_loaded_in_place() -> None:
    """The optimizer holds the very parameters of the model."""
    model, tensor = nn.Linear(2, 1), torch.zeros(2)
    state: dict[str, Any] = {"model": model, "nested": [{"t": tensor}, (tensor,)]}
    saved = capture({"model": nn.Linear(2, 1), "nested": [{"t": torch.ones(2)}, (torch.ones(2),)]})
    weight = model.weight
    restore(state, saved)
    assert state["model"] is model
    assert model.weight is weight
    assert torch.equal(weight, saved["model"].state["weight"])
    assert state["nested"][0]["t"] is tensor
    assert tensor.tolist() == [1, 1]


def test_all_else_is_written_back_into_the_mapping() -> None:
    """Numbers, strings and dataclasses cannot change in place."""
    history: list[float] = [9.0]
    state = {"n": 0, "best": Best(), "history": history, "scores": {"old": 1.0}}
    restore(state, {"n": 5, "best": Best(0.7), "history": [1.0, 2.0], "scores": {"new": 2.0}})
    assert state == {"n": 5, "best": Best(0.7), "history": [1.0, 2.0], "scores": {"new": 2.0}}
    assert state["history"] is history


def test_models_in_an_ordered_dictionary_are_kept_like_those_in_a_plain_one() -> None:
    """And a module's state that is a value itself keeps its versions."""
    models = OrderedDict(a=nn.BatchNorm1d(2), b=nn.Linear(1, 1))
    best = nn.BatchNorm1d(2).state_dict()
    saved = capture({"models": models, "best": best})
    assert isinstance(saved["models"]["a"], ObjectState)
    assert saved["best"]._metadata == best._metadata
    nn.init.constant_(models["b"].weight, 7)
    kept = capture({"models": OrderedDict(a=nn.BatchNorm1d(2), b=nn.Linear(1, 1))})
    restore({"models": models}, kept)
    assert torch.equal(models["b"].weight, kept["models"]["b"].state["weight"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(1).expand(3), r"state\.config\.x shows the same memory several times"),
        (DataLoader([1, 2]), r"state\.config\.x is a DataLoader of torch(.|\n)*make_loader\("),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_loaded_in_place_is_refused_before_it_is_saved(value: Any, words: str) -> None:
    """Not by the run that goes on, when hours lie behind it."""
    with pytest.raises(InvalidRequest, match=words):
        capture({"config": {"x": value}})


def test_a_fresh_optimizer_is_loaded_right() -> None:
    """It has no state yet; the saved one has integer keys."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    trained = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3)).sum().backward()
    trained.step()
    fresh = torch.optim.Adam(model.parameters(), lr=0.5)
    restore({"o": fresh}, capture({"o": trained}))
    assert fresh.state_dict()["param_groups"][0]["lr"] == 0.1
    assert torch.equal(fresh.state[model.weight]["exp_avg"], trained.state[model.weight]["exp_avg"])


def test_generators_are_kept_and_found() -> None:
    """They differ from rank to rank, so each rank keeps its own."""
    state = {"a": torch.Generator().manual_seed(1), "b": [random.Random(2)], "c": np.random.default_rng(3)}  # noqa: S311
    saved = capture(state)
    assert set(find_generators(state)) == {"state.a", "state.b.0", "state.c"}
    expected = torch.rand(1, generator=state["a"]), state["b"][0].random(), state["c"].random()
    restore(state, saved)
    assert (torch.rand(1, generator=state["a"]), state["b"][0].random(), state["c"].random()) == expected


def test_a_compiled_model_is_kept_as_a_plain_one() -> None:
    """So that evaluation need not compile."""
    model = nn.Linear(2, 1)
    compiled = torch.compile(model, backend="eager")
    assert capture({"m": compiled})["m"].state.keys() == {"weight", "bias"}


@pytest.mark.parametrize(
    ("state", "saved", "words"),
    [
        ({"model": nn.Linear(2, 1)}, {"model": ObjectState(nn.Linear(3, 1).state_dict())}, "size mismatch"),
        ({"t": torch.zeros(2)}, {"t": torch.zeros(3)}, r"shape \(3,\); now it is"),
        ({"t": torch.zeros(2)}, {"t": torch.zeros(2).double()}, "float64"),
        (
            {"model": nn.Linear(2, 1).half()},
            {"model": ObjectState(nn.Linear(2, 1).state_dict())},
            r"state\.model\.weight was saved as torch\.float32; now it is torch\.float16",
        ),
        ({"model": nn.Linear(2, 1), "ema": 1}, {"model": ObjectState({})}, "no 'ema'"),
        ({}, {"model": ObjectState({})}, "an object 'model'"),
        ({"model": 3}, {"model": ObjectState({})}, "saved from an object; now it is a int"),
        ({"model": nn.Linear(2, 1)}, {"model": 3}, "saved as a plain int"),
        ({"l": [torch.zeros(1)]}, {"l": []}, "saved with 0 items; now it has 1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(state: dict[str, Any], saved: dict[str, Any], words: str) -> None:
    """Half a state that was loaded is worse than none."""
    with pytest.raises(StateMismatch, match=words):
        restore(state, saved)


def test_a_tensor_that_nothing_can_be_loaded_into_is_named() -> None:
    """Torch only tells that there is one."""
    with torch.inference_mode():
        tensor = torch.zeros(2)
    with pytest.raises(StateMismatch, match=r"state\.t cannot be loaded in place"):
        restore({"t": tensor}, {"t": torch.ones(2)})


def test_sharded_models_are_refused() -> None:
    """Rank 0 would save its own shard as if it were the model."""
    sharded = type("FullyShardedDataParallel", (nn.Linear,), {})(2, 1)
    with pytest.raises(InvalidRequest, match=r"state\.model is sharded"):
        capture({"model": sharded})
