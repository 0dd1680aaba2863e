"""The number format: what the device is good at, unless somebody says otherwise."""

import pytest
import torch

from helpers.errors import InvalidRequest
from helpers.training import autocast, make_scaler, precision


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a CUDA card of the capability that the test sets."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla V100")


def _be(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: capability >= (8, 0))


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELPERS_PRECISION", "HELPERS_GPUS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(("capability", "expected"), [((9, 0), "bf16"), ((7, 0), "fp16"), ((5, 2), "fp32")])
def test_the_card_decides(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: str) -> None:
    """A V100 emulates bf16, slowly; fp16 without a scaler loses gradients."""
    _be(monkeypatch, capability)
    assert precision() == expected


@pytest.mark.usefixtures("card")
def test_bf16_on_a_card_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In silence it would be slower than fp32."""
    _be(monkeypatch, (7, 0))
    with pytest.raises(InvalidRequest, match=r"Tesla V100 computes no bf16"):
        precision("bf16")


def test_a_cpu_computes_in_fp32_and_autocast_does_nothing() -> None:
    """bf16 on most CPUs is slower."""
    assert precision() == "fp32"
    with autocast():
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32


def test_the_setting_is_obeyed_and_an_argument_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere: the call wins."""
    monkeypatch.setenv("HELPERS_PRECISION", "bf16")
    assert (precision(), precision("fp16"), precision("auto")) == ("bf16", "fp16", "fp32")
    with autocast():
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    with autocast("fp32"):
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32


def test_only_fp16_has_a_scaler_that_scales() -> None:
    """The loop stays the same in every format."""
    loss = torch.tensor(1.0)
    assert make_scaler("fp16").scale(loss) > loss
    assert make_scaler("bf16").scale(loss) == loss
    assert make_scaler().state_dict() == {}


@pytest.mark.parametrize(("said", "name"), [("argument", "precision"), ("variable", "HELPERS_PRECISION")])
def test_an_unknown_format_is_named_with_the_known_ones(monkeypatch: pytest.MonkeyPatch, said: str, name: str) -> None:
    """Whoever said it is named: "float16" is what torch calls it."""
    monkeypatch.setenv("HELPERS_PRECISION", "float16")
    with pytest.raises(InvalidRequest, match=f"{name} is auto, bf16, fp16 or fp32; got 'float16'"):
        precision("float16" if said == "argument" else None)
