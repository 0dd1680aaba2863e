"""Tell whether a metric is better than the best so far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOWER_IS_BETTER = ("loss", "error", "perplexity", "mse", "mae", "nll", "wer", "cer", "fid")


def judge(
    metric: Mapping[str, float], lower_is_better: bool | None, best: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the facts of a new best, or None if it is no better.

    Args:
        metric: One name and value; NaN is never better.
        lower_is_better: None to tell from the name.
        best: The facts of the best so far; None if there is none.

    Raises:
        InvalidRequest: If there is not exactly one metric, or it is another one than before.
    """
    if len(metric) != 1:
        raise InvalidRequest(f"keep_best takes one metric, got {sorted(metric)}.", hint="keep_best(accuracy=0.93)")
    [(name, given)] = metric.items()
    value = float(given)
    lower = _is_lower_better(name) if lower_is_better is None else lower_is_better
    facts = {"metric": name, "value": value, "lower_is_better": lower}
    if best is None:
        return None if math.isnan(value) else facts
    if best["metric"] != name:
        raise InvalidRequest(f"The best so far was chosen by {best['metric']}, not by {name}.")
    better = value < best["value"] if lower else value > best["value"]
    return facts if better else None


def _is_lower_better(name: str) -> bool:
    words = name.lower().split("_")
    return any(word in words or (len(word) > 3 and word in name.lower()) for word in _LOWER_IS_BETTER)  # noqa: PLR2004 -- short ones only as a whole word
