"""Put what the jobs have found beside the published figures: a table, JSON, a picture."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from helpers.doctor.scaling.judging import efficiency, spread, why_meaningless

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = {1: 1376.0, 2: 2768.0, 4: 5357.0, 8: 10723.0}
"""Images in a second by GPUs: ResNet-50, mixed precision, batch 192, real data, MXNet on a DGX-1 with V100 16 GB.

Source: NVIDIA, DeepLearningExamples, MxNet/Classification/RN50v1.5, "Training performance".
"""
PUBLISHED_WORDS = "V100 16 GB, ResNet-50, mixed precision, batch 192, real data (NVIDIA, MXNet)"
_MEASURED = ("gpus", "nodes", "images/s", "per GPU", "± round", "efficiency", "data wait")
_PUBLISHED = ("V100", "V100 eff.")


def judge(runs: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one record for each count: what was measured, the efficiency, or why there is none.

    Args:
        runs: What each job has found, or ``{"error": …}``, by the number of processes.
    """
    base = runs.get(1)
    base = None if base is None or "error" in base else base
    published = PUBLISHED if any(_is_comparable(run) for run in runs.values()) else {}
    return [{"gpus": count, **_judge(run, base), "published": published.get(count)} for count, run in runs.items()]


def _is_comparable(run: dict[str, Any]) -> bool:
    """Say whether it is the published network, on GPUs."""
    return "error" not in run and run["model"] == "resnet50" and run["device"] != "cpu"


def _judge(run: dict[str, Any], base: dict[str, Any] | None) -> dict[str, Any]:
    if "error" in run:
        return {**run, "efficiency": None, "meaningless": [run["error"]]}
    reasons = why_meaningless(run, base)
    return {
        **run,
        "nodes": len({rank["node"] for rank in run["ranks"]}),
        "per_gpu": run["images_per_s"] / len(run["ranks"]),
        "spread": spread(run["round_s"]),
        "efficiency": None if reasons or base is None else efficiency(run, base),
        "meaningless": reasons,
    }


def titles(records: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the table's titles: the published figures have a place where they can be compared."""
    return (*_MEASURED, *_PUBLISHED) if _with_published(records) else _MEASURED


def rows(records: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the table's rows, under :func:`titles`."""
    blank = ("", "") if _with_published(records) else ()
    return [_row(record, blank) for record in records]


def _row(record: dict[str, Any], blank: tuple[str, ...]) -> tuple[str, ...]:
    count, published = record["gpus"], record["published"]
    theirs = blank if published is None else (f"{published:.0f}", f"{published / count / PUBLISHED[1]:.0%}")
    if "error" in record:
        return (str(count), *[""] * 6, *theirs)
    told = record["efficiency"]
    return (
        str(count),
        str(record["nodes"]),
        f"{record['images_per_s']:.0f}",
        f"{record['per_gpu']:.0f}",
        f"{record['spread']:.0%}",
        "none: see below" if told is None else f"{told:.0%}",
        f"{record['data_wait']:.0%}",
        *theirs,
    )


def words(records: list[dict[str, Any]]) -> list[str]:
    """Return what stands under the table: what was trained, and why an efficiency is not told."""
    lines = []
    measured = [record for record in records if "error" not in record]
    if measured:
        one = measured[0]
        lines.append(
            f"{one['model']} ({one['parameters']:,} parameters), {one['data']} data, {one['precision']}, batch "
            f"{one['batch']} per process, {one['layout']}, on {one['device']}"
        )
    lines += [f"no efficiency for {record['gpus']}: {'; '.join(record['meaningless'])}"
              for record in records if record["meaningless"]]  # fmt: skip
    return [*lines, f"V100: {PUBLISHED_WORDS}"] if _with_published(records) else lines


def _with_published(records: list[dict[str, Any]]) -> bool:
    return any(record["published"] for record in records)


def draw(records: list[dict[str, Any]], path: Path) -> bool:
    """Draw images in a second over GPUs beside the published ones; return False where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    shown = [record for record in records if "error" not in record]
    counts, speeds = [record["gpus"] for record in shown], [record["images_per_s"] for record in shown]
    axes.plot(counts, speeds, "o-", label="measured")
    if shown and not shown[0]["meaningless"]:
        axes.plot(counts, [shown[0]["per_gpu"] * count for count in counts], ":", color="grey", label="linear")
    if _with_published(records):
        axes.plot(list(PUBLISHED), list(PUBLISHED.values()), "s--", label="V100, published: 97 % at 8")
    axes.set(xlabel="GPUs", ylabel="images/s", xscale="log", yscale="log", title=words(records)[0])
    axes.title.set_fontsize(7)
    ticks = sorted({*counts, *(PUBLISHED if _with_published(records) else ())})
    axes.set_xticks(ticks, [str(count) for count in ticks])
    axes.minorticks_off()
    axes.legend()
    figure.savefig(path, dpi=150)
    return True
