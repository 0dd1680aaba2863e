"""What only a real GPU can show: the device, its number formats, NCCL, and a checkpoint that leaves it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.training import Checkpointer, autocast, get_device, make_scaler, precision
from helpers.training.devices.device import name_gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "HELPERS_RUN", "HELPERS_PRECISION", "HELPERS_ALLOW_CPU"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HELPERS_GPUS", "1")


def _results(run: Any) -> list[dict[str, Any]]:
    logs = [(run.path / "logs" / f"0-{rank}.log").read_text() for rank in range(run.world_size)]
    return [json.loads(log.split("RESULT ")[1].splitlines()[0]) for log in logs]


def test_the_device_is_a_cuda_gpu_that_torch_has_code_for_and_that_has_a_name() -> None:
    """The stand-ins of the other tests know nothing of drivers."""
    device = get_device()
    assert device == torch.device("cuda", 0)
    assert torch.ones(2, device=device).sum().item() == 2
    assert name_gpu(device)


def test_autocast_computes_in_the_format_of_the_card() -> None:
    """bf16 from Ampere on, fp16 with a scaler that scales before."""
    device = get_device()
    expected = "bf16" if torch.cuda.get_device_capability(device) >= (8, 0) else "fp16"
    assert precision() == expected
    with autocast():
        product = torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)
    assert product.dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[expected]
    assert make_scaler().is_enabled() is (expected == "fp16")


def test_fp16_trains_with_the_scaler() -> None:
    """On a card that has bf16 too, where the setting says fp16."""
    model = torch.nn.Linear(8, 1).to(get_device())
    before = model.weight.detach().clone()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), make_scaler("fp16")
    with autocast("fp16"):
        loss = model(torch.ones(4, 8, device=get_device())).float().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.weight, before)


def test_a_checkpoint_that_a_gpu_has_saved_loads_on_a_cpu(tmp_path: Path) -> None:
    """Evaluation on a laptop; the weights are the same bit for bit."""
    model = torch.nn.Linear(8, 8).to(get_device())
    checkpoint = Checkpointer({"model": model}, folder=tmp_path)
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    weight = Checkpointer.load(tmp_path, "model")["weight"]
    assert weight.device.type == "cpu"
    assert torch.equal(weight, model.weight.detach().cpu())


def test_two_ranks_on_one_real_gpu_are_refused(start_run: Callable[..., Any]) -> None:
    """Each sees one GPU, by whatever variable: it is the same."""
    run = start_run("same", 2)
    assert run.run("meet.py", "meet", CUDA_VISIBLE_DEVICES="0", HELPERS_GPUS="2") == [1, 1]
    assert "Ranks 0 and 1 would share one GPU" in run.logs()
    assert "Ranks 1 and 0 would share one GPU" in run.logs()


def test_an_all_reduce_goes_through_nccl_and_what_it_goes_over_is_said(start_run: Callable[..., Any]) -> None:
    """Two GPUs: the sum is right, and rank 0 names P2P, SHM or NET."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    run = start_run("nccl", 2)
    assert run.run("meet.py", "on_gpus", HELPERS_GPUS="2") == [0, 0], run.logs()
    assert _results(run) == [{"backend": "nccl", "sum": 1.0}] * 2
    (said,) = [line for line in run.logs().splitlines() if "all-reduce of" in line]
    assert "2 processes on 1 node, NCCL over " in said
    assert any(way in said for way in ("P2P", "SHM", "NET"))


def test_a_model_is_wrapped_on_gpus_as_on_a_cpu(start_run: Callable[..., Any]) -> None:
    """Two GPUs: its buckets are settled through NCCL."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    run = start_run("wrapping", 2)
    assert run.run("wrapping.py", HELPERS_GPUS="2") == [0, 0], run.logs()
    assert [result["batch norm"] for result in _results(run)] == ["", ""]
