"""What is trained in each job of the benchmark: the same in all, but for the number of processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from helpers.errors import InvalidRequest

_WORDS = {
    "model": ("resnet50", "small"),
    "data": ("synthetic", "real"),
    "layout": ("channels_last", "contiguous"),
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained, and for how long.

    Args:
        model: None: the small one on a CPU, else ResNet-50.
        data: One batch that stays on the device, or images that workers decode.
        folder: Of the images.
        batch: Images per step and process; None for the model's own.
        precision_asked: ``"bf16"``, ``"fp16"`` or ``"fp32"``; None for what the device is good at.
        layout: Of the images in memory.
        workers: That read images, per process; None for what :func:`helpers.training.suggest_workers` returns.
        warmup: Iterations that are not timed.
        rounds: Rounds that are timed; their median counts.
        iterations: Per round; None for the model's own number.

    Raises:
        InvalidRequest: If one of them breaks a rule.
    """

    model: str | None = None
    data: str = "synthetic"
    folder: str = ""
    batch: int | None = None
    precision_asked: str | None = None
    layout: str = "channels_last"
    workers: int | None = None
    warmup: int = 10
    rounds: int = 5
    iterations: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in _WORDS.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                words = " or ".join(allowed)
                raise InvalidRequest(f"{name} is {words}; got {value!r}.", hint=f"--{name} {allowed[0]}")
        for name, least in {"batch": 1, "workers": 0, "warmup": 1, "rounds": 1, "iterations": 1}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidRequest(f"{name} is at least {least}; got {value}.", hint=f"--{name} {max(least, 1)}")

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of what runs in the job."""
        return asdict(self)


def parse_counts(text: str) -> list[int]:
    """Read ``1,2,4,8``, in any order.

    Raises:
        InvalidRequest: If it is no such list.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise InvalidRequest(f"--gpus is a list of numbers from 1 up; got {text!r}.", hint="--gpus 1,2,4,8")
    return sorted({int(word) for word in words})
