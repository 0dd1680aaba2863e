"""Do in several processes what the mode says about their devices; print one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

import torch
import torch.distributed as dist

from helpers.errors import InvalidRequest
from helpers.runtime.current import current_run
from helpers.training import Checkpointer, autocast, distributed, make_scaler, precision, wrap
from helpers.training.devices.device import GpuNotSeen


def one_gpu() -> dict[str, object]:
    """Show torch one GPU, whose name UUIDS has for each rank."""
    uuid = os.environ["UUIDS"].split()[current_run().rank]
    torch.accelerator.is_available = lambda: True
    torch.accelerator.device_count = lambda: 1
    torch.accelerator.current_accelerator = lambda: torch.device("cuda")  # type: ignore[assignment]
    torch.accelerator.set_device_index = lambda *_: None  # type: ignore[method-assign, assignment]
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(uuid=uuid)  # type: ignore[assignment]
    dist.init_process_group = _leave  # past the check comes NCCL, which is not here
    try:
        with distributed(timeout="60s"):
            pass
    except GpuNotSeen as error:
        return {"refused": str(error)}
    except SystemExit:
        return {"refused": ""}
    return {}


def shard() -> dict[str, object]:
    """Train a sharded model, and one that is not, from the same weights."""
    with distributed(timeout="60s"):
        found = {}
        for sharded in (True, False):
            torch.manual_seed(0)
            layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
            model = wrap(_Net(layers), shard=sharded)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(2):
                optimizer.zero_grad()
                model(torch.full((2, 4), float(current_run().rank + step))).pow(2).mean().backward()
                optimizer.step()
            found[sharded] = [p.full_tensor() if sharded else p for p in model.parameters()]  # type: ignore[operator]
            if sharded:
                local = sum(p.to_local().numel() for p in model.parameters())  # type: ignore[operator]
                try:
                    Checkpointer({"model": model}, folder="c").save()
                    refused = ""
                except InvalidRequest as error:
                    refused = str(error)
        same = all(torch.allclose(one, other) for one, other in zip(found[True], found[False], strict=True))
    return {"same": same, "local": local, "refused": refused}


def half() -> dict[str, object]:
    """Train in a number format; keep the scaler in a checkpoint."""
    with distributed(timeout="60s"):
        model = wrap(torch.nn.Linear(4, 4))
        scaler = make_scaler()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = {"model": model, "scaler": scaler}
        checkpoint = Checkpointer(state, folder="c")
        for _ in checkpoint.steps(2):
            optimizer.zero_grad()
            with autocast():
                output = model(torch.ones(2, 4))
            scaler.scale(output.float().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        checkpoint.save()
        checkpoint.wait()
        kept = Checkpointer.load("c", "scaler")
    return {"precision": precision(), "output": str(output.dtype), "scaler": scaler.is_enabled(), "kept": sorted(kept)}


def _leave(*_: object, **__: object) -> None:
    raise SystemExit


class _Net(torch.nn.Module):
    def __init__(self, layers: torch.nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers
        self.last = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through all layers."""
        for layer in self.layers:
            x = layer(x)
        return self.last(x)  # type: ignore[no-any-return]


if __name__ == "__main__":
    print("RESULT " + json.dumps(globals()[sys.argv[1]]()), flush=True)
