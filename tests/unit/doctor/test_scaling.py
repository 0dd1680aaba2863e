"""An efficiency is told only where it means something."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers import InvalidRequest
from helpers.cli.main import app
from helpers.doctor.scaling import running
from helpers.doctor.scaling.judging import why_meaningless
from helpers.doctor.scaling.report import PUBLISHED, draw, judge, rows, titles, words
from helpers.doctor.scaling.workload import Workload, parse_counts

QUICK = ("--warmup", "1", "--rounds", "2", "--iterations", "2")


def rank(number: int = 0, **differences: Any) -> dict[str, Any]:
    """What one process tells of itself: four CPUs of its own, and a card."""
    cpus = list(range(4 * number, 4 * number + 4))
    own = {"node": "gpu1", "cpus": cpus, "workers": 3, "device": "A100", "card": f"GPU-{number}", "slowed_by": []}
    return {**own, **differences}


def found(images_per_s: float = 1000.0, *, ranks: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """What one job has found."""
    same = {"model": "resnet50", "data": "real", "batch": 128, "precision": "bf16", "layout": "channels_last"}
    measured = {"round_s": [1.0, 1.02, 0.99], "data_wait": 0.01, "device": "A100", "parameters": 25557032}
    return {**same, **measured, "images_per_s": images_per_s, "ranks": ranks or [rank()], **more}


TWO = [rank(0), rank(1)]


def test_the_efficiency_is_what_a_gpu_does_among_many_of_what_it_does_alone() -> None:
    """The guides' own definition, and their line beside it."""
    records = judge({1: found(), 2: found(1900.0, ranks=TWO)})
    assert [(record["efficiency"], record["per_gpu"]) for record in records] == [(1.0, 1000.0), (0.95, 950.0)]
    assert dict(zip(titles(records), rows(records)[1], strict=True)) == {
        "gpus": "2", "nodes": "1", "images/s": "1900", "per GPU": "950", "± round": "2%", "efficiency": "95%",
        "data wait": "1%", "V100": "2768", "V100 eff.": "101%",
    }  # fmt: skip
    assert words(records)[0] == (
        "resnet50 (25,557,032 parameters), real data, bf16, batch 128 per process, channels_last, on A100"
    )


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        (found(ranks=[rank(0), rank(0, card="GPU-1")]), "2 process(es) with 3 workers each share 4 CPU(s) on gpu1"),
        (found(ranks=[rank(0, cpus=[0, 1]), rank(1, cpus=list(range(2, 12)))]), "is bound to 2 CPU(s), for 3 workers"),
        (found(ranks=[rank(0), rank(1, card="GPU-0")]), "several processes share one GPU"),
        (found(ranks=[rank(0), rank(1, slowed_by=["heat"])]), "clocks were lowered by heat"),
        (found(ranks=TWO, data_wait=0.2), "20% of the time went into waiting for data"),
        (found(ranks=TWO, round_s=[1.0, 1.5, 1.0]), "the rounds differ by ±25%"),
        (found(ranks=TWO, device="V100"), "device is V100, and was A100 with 1"),
    ],
)
def test_what_makes_it_meaningless_is_said_instead(measured: dict[str, Any], reason: str) -> None:
    """A figure that measures something else is worse than none."""
    records = judge({1: found(), 2: measured})
    assert (records[1]["efficiency"], rows(records)[1][5]) == (None, "none: see below")
    assert any(line.startswith("no efficiency for 2: ") and reason in line for line in words(records))


def test_a_base_that_is_doubtful_makes_all_doubtful() -> None:
    """One GPU that waits for its data makes eight of them look good."""
    assert why_meaningless(found(ranks=TWO), found(data_wait=0.5)) == [
        "with 1: 50% of the time went into waiting for data"
    ]


def test_without_the_run_of_one_there_is_nothing_to_compare_with() -> None:
    """Two GPUs are not half of four: the step from one to two is where the network begins."""
    records = judge({1: {"error": "TimeLimitReached"}, 2: found(ranks=TWO)})
    assert [record["meaningless"] for record in records] == [
        ["TimeLimitReached"],
        ["nothing to compare with: the run with 1 is missing"],
    ]


def test_the_published_line_is_the_one_of_97_percent() -> None:
    """Figures that are quoted everywhere, and are not to be mistyped."""
    assert (list(PUBLISHED.values()), f"{PUBLISHED[8] / 8 / PUBLISHED[1]:.0%}") == ([1376, 2768, 5357, 10723], "97%")


def test_another_network_and_a_cpu_are_not_compared_with_what_was_published() -> None:
    """A small model on a CPU beside eight V100s would tell nobody anything."""
    for one in (found(model="small"), found(device="cpu")):
        records = judge({1: one})
        assert "V100" not in titles(records)
        assert len(rows(records)[0]) == len(titles(records))
        assert not any("V100" in line for line in words(records))


def test_a_picture_is_drawn_beside_the_published_line(tmp_path: Path) -> None:
    """A job that failed is left out."""
    records = judge({1: found(), 2: found(1900.0, ranks=TWO), 4: {"error": "no such luck"}})
    assert draw(records, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["", "0", "1,a", "1,,2"])
def test_counts_are_numbers(text: str) -> None:
    """And the hint shows how they are written."""
    with pytest.raises(InvalidRequest, match="--gpus is a list of numbers"):
        parse_counts(text)


@pytest.mark.parametrize("wrong", [{"model": "resnet18"}, {"data": "fake"}, {"batch": 0}, {"warmup": 0}])
def test_a_workload_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    """Before anything is queued."""
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        Workload(**wrong)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, on a machine without Slurm and GPUs."""
    for name in ("SLURM_CONF", "CUDA_VISIBLE_DEVICES", "HELPERS_RUNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    return tmp_path


def test_without_gpus_processes_are_counted_and_all_is_written_down(folder: Path) -> None:
    """So that it can be tried on a laptop."""
    done = CliRunner().invoke(app, ["bench", "scaling", "--gpus", "2,1", "--cluster", "local", *QUICK])
    assert done.exit_code == 0, done.output
    runs = json.loads((folder / "scaling" / "scaling.json").read_text())["runs"]
    assert [(run["gpus"], len(run["ranks"]), run["model"], run["data_wait"]) for run in runs] == [
        (1, 1, "small", 0.0),
        (2, 2, "small", 0.0),
    ]
    assert "small (5,466 parameters), synthetic data, fp32" in done.output
    assert (folder / "scaling" / "scaling.png").exists()


def test_real_data_are_made_and_decoded_where_none_are_given(folder: Path) -> None:
    """And a small model on a CPU waits for them, which is no efficiency."""
    words = ("--data", "real", "--workers", "1", "--batch", "8", "--json")
    done = CliRunner().invoke(app, ["bench", "scaling", "--gpus", "1", "--cluster", "local", *words, *QUICK])
    assert done.exit_code == 0, done.output
    run = json.loads((folder / "scaling" / "scaling.json").read_text())["runs"][0]
    assert (run["efficiency"], run["data_wait"] > 0.05, run["ranks"][0]["workers"]) == (None, True, 1)


def test_a_job_that_fails_is_told_and_hides_no_other(folder: Path) -> None:
    """Its words, and where to look."""
    (folder / "empty").mkdir()
    words = ("--data", "real", "--folder", "empty")
    done = CliRunner().invoke(app, ["bench", "scaling", "--gpus", "1", "--cluster", "local", *words, *QUICK])
    assert done.exit_code == 1, done.output
    assert "no efficiency for 1: InvalidRequest: There are no images" in done.output, done.output


@pytest.mark.usefixtures("folder", "fake_slurm")
def test_what_could_never_run_is_told_before_anything_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight GPUs that no node has were found out after an hour of the others."""
    told: list[str] = []

    def run(asked: dict[str, Any], _workload: Workload) -> dict[str, Any]:
        told.append(f"queued {asked['gpus']}")
        return found()

    monkeypatch.setattr(running, "_run", run)
    runs = running.run_all([1, 3000, 2], Workload(), settings={"time": "20min"}, tell=told.append)
    assert (list(runs), "error" in runs[3000]) == ([1, 3000, 2], True)
    assert told[0].startswith("gpus=3000 is left out: ")
    assert runs[3000]["error"] in told[0]
    assert told[1:] == ["1 of 2: gpus=1", "queued 1", "2 of 2: gpus=2", "queued 2"]
