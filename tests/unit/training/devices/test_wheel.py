"""A build of torch and the card it runs on."""

import pytest
import torch

from helpers.training import get_device
from helpers.training.devices.wheel import GpuNotSupported, check_wheel, has_code

CU130 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
CU126 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


def _show(monkeypatch: pytest.MonkeyPatch, built_for: list[str], capability: tuple[int, int], name: str) -> None:
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built_for)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)


def test_a_v100_with_a_current_wheel_is_told_the_wheel_that_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words "no kernel image is available" say neither which card nor what to do."""
    _show(monkeypatch, CU130, (7, 0), "Tesla V100-SXM2-32GB")
    with pytest.raises(GpuNotSupported, match="no code for Tesla V100-SXM2-32GB, which is sm_70") as caught:
        check_wheel(torch.device("cuda", 0))
    assert 'pip install "torch>=2.7,<2.15" --index-url https://download.pytorch.org/whl/cu126' in str(caught.value)


def test_get_device_says_so_before_the_training_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kernel may come after an hour of preparing data."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.delenv("HELPERS_GPUS", raising=False)
    monkeypatch.setattr("helpers.training.devices.device._supported", set())
    _show(monkeypatch, CU130, (7, 0), "Tesla V100-SXM2-32GB")
    with pytest.raises(GpuNotSupported, match="sm_70"):
        get_device()


def test_a_new_card_with_an_old_wheel_is_told_the_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way round."""
    _show(monkeypatch, CU126, (10, 0), "NVIDIA B200")
    with pytest.raises(GpuNotSupported, match="cu130"):
        check_wheel(torch.device("cuda", 0))


def test_a_card_that_no_wheel_serves_any_more_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin that does not help is worse than none."""
    _show(monkeypatch, CU130, (3, 7), "Tesla K80")
    with pytest.raises(GpuNotSupported, match="another type of GPU"):
        check_wheel(torch.device("cuda", 0))


@pytest.mark.parametrize("built_for", [[], ["gfx90a", "gfx942"]])
def test_builds_that_name_no_cuda_code_are_not_judged(monkeypatch: pytest.MonkeyPatch, built_for: list[str]) -> None:
    """A CPU build names nothing; one for AMD names its cards otherwise."""
    _show(monkeypatch, built_for, (7, 0), "a card")
    if built_for:
        monkeypatch.setattr(torch.version, "hip", "6.4")
    assert check_wheel(torch.device("cuda", 0)) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("built_for", "capability", "expected"),
    [
        (["sm_80"], (8, 6), True),
        (["sm_86"], (8, 0), False),
        (["sm_80"], (9, 0), False),
        (["sm_90a"], (9, 0), True),
        (["sm_100a"], (10, 3), False),
        (["sm_100f"], (10, 3), True),
        (["compute_80"], (12, 0), True),
        (["compute_90a"], (12, 0), False),
        (["sm_120"], (12, 0), True),
    ],
)
def test_code_runs_on_what_nvidia_says_it_runs_on(
    built_for: list[str], capability: tuple[int, int], expected: bool
) -> None:
    """Machine code stays within its major version; PTX is compiled for what came later."""
    assert has_code(built_for, *capability) is expected
