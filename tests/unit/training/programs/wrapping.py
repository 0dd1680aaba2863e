"""Wrap models of several kinds in two processes; print one line of JSON."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import nn

from helpers.runtime.current import current_run
from helpers.training import distributed, get_device, wrap
from helpers.training.ranks import data_parallel


class _Branches(nn.Module):
    """Of two layers one takes part; and of its other parameters one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(3, 1), nn.Linear(3, 1)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through the one that takes part."""
        return self.used(x * self.frozen)  # type: ignore[no-any-return]


def main() -> dict[str, object]:
    """Tell what became of each."""
    rank = current_run().rank
    with distributed(timeout="60s"):
        return {
            "gradient": _keeps_what_was_there(rank),
            "sparse": _train(nn.Sequential(nn.Embedding(4, 3, sparse=True), nn.Linear(3, 1)), torch.tensor([rank])),
            "batch norm": _train(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), torch.rand(4, 3)),
            "found": _train(_Branches(), torch.rand(4, 3), find_unused_parameters=True),
            "not looked for": _train(_Branches(), torch.rand(4, 3)),
            "as on a GPU": _train_with_a_device(),
        }


def _keeps_what_was_there(rank: int) -> float:
    """Return a gradient that a model brings along, after it was wrapped."""
    model = nn.Linear(1, 1).to(get_device())
    model.weight.grad = torch.full_like(model.weight, float(rank))
    wrap(model)
    return float(model.weight.grad)


def _train(model: nn.Module, x: torch.Tensor, *, find_unused_parameters: bool = False) -> str:
    """Take three steps; return what was wrong, in the library's words."""
    model, x = model.to(get_device()), x.to(get_device())
    wrapped = wrap(model, find_unused_parameters=find_unused_parameters)
    before = [parameter.grad for parameter in model.parameters()]
    assert before == [None] * len(before)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    try:
        for _ in range(3):
            optimizer.zero_grad()
            wrapped(x).sum().backward()
            optimizer.step()
    except RuntimeError as error:
        return str(error)
    return ""


def _train_with_a_device() -> str:
    """Train as on a GPU, where torch moves what the model is called with to its device."""
    data_parallel.DistributedDataParallel = _OnOneDevice  # type: ignore[misc]
    return _train(nn.Linear(3, 1), torch.rand(4, 3))


class _OnOneDevice(nn.parallel.DistributedDataParallel):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device_ids = [get_device().index or 0]


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()), flush=True)
