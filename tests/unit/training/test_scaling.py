"""What the scaling benchmark trains, and what it reads."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from helpers import InvalidRequest
from helpers.runtime.gpus import nvml
from helpers.training.scaling.clocks import slowed_by
from helpers.training.scaling.images import Images, read_image
from helpers.training.scaling.measuring import measure
from helpers.training.scaling.models import RESNET50_PARAMETERS, make_own_resnet50, make_resnet50
from tests.gpu_driver.cards import Cards

QUICK: dict[str, Any] = {
    "model": None,
    "data": "synthetic",
    "folder": "",
    "batch": 4,
    "precision_asked": None,
    "layout": "channels_last",
    "workers": 0,
    "warmup": 1,
    "rounds": 3,
    "iterations": 2,
}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two images, one of them smaller than what is trained on."""
    np.savez_compressed(tmp_path / "a.npz", image=np.full((40, 50, 3), 255, dtype=np.uint8))
    (tmp_path / "below").mkdir()
    np.savez_compressed(tmp_path / "below" / "b.npz", image=np.zeros((10, 50, 3), dtype=np.uint8))
    return tmp_path


@pytest.mark.parametrize("make", [make_resnet50, make_own_resnet50])
def test_resnet_50_is_the_one_whose_figures_are_published(make: Any) -> None:
    """Another network of that name would be faster, or slower, and compare with nothing."""
    model = make()
    assert sum(parameter.numel() for parameter in model.parameters()) == RESNET50_PARAMETERS == 25_557_032
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


def test_images_are_cut_to_one_size_and_come_again_up_to_the_length(images: Path) -> None:
    """However large they are: a batch is one tensor."""
    data = Images(images, size=32, classes=10, length=23)
    samples = [data[number] for number in range(len(data))]
    assert {(tuple(image.shape), image.dtype) for image, _ in samples} == {((3, 32, 32), torch.float32)}
    assert [image.mean().item() for image, _ in samples[:3]] == [1.0, -1.0, 1.0]
    assert [label for _, label in samples[8:12]] == [8, 9, 0, 1]


def test_a_photograph_is_read_where_pillow_is_installed(tmp_path: Path) -> None:
    """As data sets have them."""
    pillow = pytest.importorskip("PIL.Image")  # of matplotlib, which is a dependency of development
    pillow.new("L", (50, 40), 255).save(tmp_path / "a.jpg")
    assert read_image(tmp_path / "a.jpg", at_least=45).shape == (45, 50, 3)


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    """Rather than to measure nothing."""
    with pytest.raises(InvalidRequest, match="There are no images"):
        Images(tmp_path, size=32, classes=10, length=1)


def test_synthetic_data_are_never_waited_for() -> None:
    """They are on the device already."""
    found = measure(**QUICK)
    assert (found["model"], found["device"], found["precision"], found["data_wait"]) == ("small", "cpu", "fp32", 0.0)
    assert (found["images_per_s"] > 0, len(found["round_s"]), len(found["ranks"])) == (True, 3, 1)


def test_waiting_for_real_data_is_told(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the share of a step that the same step takes less when its batch is there."""
    seconds = iter([[1.0, 1.0, 2.0], [4.0, 4.0, 4.5]])
    monkeypatch.setattr("helpers.training.scaling.measuring._time", lambda step, *_: (step(), next(seconds))[1])
    found = measure(**{**QUICK, "data": "real", "folder": str(images)})
    assert (found["data_wait"], found["round_s"], found["images_per_s"]) == (0.75, [4.0, 4.0, 4.5], 2.0)


def test_the_workers_that_read_images_are_those_that_a_loader_would_choose(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node has many CPUs, and Slurm gave two: a second count would start a worker for each of the node's."""
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    monkeypatch.setattr("helpers.training.devices.threads.available_cpus", lambda: frozenset(range(64)))
    found = measure(**{**QUICK, "data": "real", "folder": str(images), "workers": None})
    assert found["ranks"][0]["workers"] == 1


def test_what_slows_a_card_is_asked_of_its_driver(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the UUID that CUDA tells; a driver that fails meanwhile does not take the measurement with it."""
    facts = SimpleNamespace(uuid="a")
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: facts)
    cards.are([{"uuid": "GPU-a", "slowed": 0x20}])
    assert (slowed_by(torch.device("cuda", 0)), slowed_by(torch.device("cpu"))) == (["heat"], [])
    nvml._start.cache_clear()
    cards.are([{"broken": True}])
    assert slowed_by(torch.device("cuda", 0)) == []


@pytest.mark.gpu
def test_a_gpu_trains_resnet_50_in_its_own_precision() -> None:
    """Several hundred images in a second, on any card of the last ten years."""
    found = measure(**{**QUICK, "batch": 64, "iterations": 10})
    assert (found["model"], found["parameters"]) == ("resnet50", RESNET50_PARAMETERS)
    assert found["images_per_s"] > 200
    assert found["ranks"][0]["card"]
