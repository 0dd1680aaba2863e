"""People write amounts in many ways; a misread one is a day of waiting for the wrong job."""

from datetime import timedelta

import pytest

from helpers import InvalidRequest
from helpers.submission.resources.amounts import Gpus, memory_text, parse_gpus, parse_memory_mb, parse_minutes


@pytest.mark.parametrize(
    ("written", "minutes"),
    [
        ("8h", 480),
        ("30min", 30),
        ("1.5h", 90),
        ("1h 30min", 90),
        ("2d", 2880),
        ("1w", 10080),
        ("90s", 2),
        ("1-00:00:00", 1440),
        ("1-12:30", 2190),
        ("02:00:00", 120),
        ("10:30", 11),
        (45, 45),
        (1.5, 2),
        (timedelta(hours=2), 120),
    ],
)
def test_every_way_to_write_a_time_is_read_as_slurm_would(written: str | float | timedelta, minutes: int) -> None:
    """``10:30`` is ten and a half minutes to Slurm, not hours; half minutes are rounded up, never down."""
    assert parse_minutes(written) == minutes


@pytest.mark.parametrize(
    "written", ["soon", "8", "8 parsecs", "", "1h nonsense", "1..5h", 0, -5, True, "30s", float("nan"), float("inf")]
)
def test_a_time_that_makes_no_sense_is_refused_with_an_example(written: str | float) -> None:
    """Guessing would cost the job."""
    with pytest.raises(InvalidRequest, match='time="'):
        parse_minutes(written)


def test_a_number_in_quotes_is_answered_by_the_unit_that_it_lacks() -> None:
    """``time="90"`` are minutes to Slurm, and hours to some."""
    with pytest.raises(InvalidRequest, match='time="90min"'):
        parse_minutes("90")


@pytest.mark.parametrize(
    ("written", "megabytes"),
    [
        ("64G", 65536),
        ("64GB", 65536),
        ("64 GiB", 65536),
        ("500M", 500),
        ("1.5G", 1536),
        ("1T", 1024**2),
        (2, 2048),
        ("64", 65536),
    ],
)
def test_every_way_to_write_memory_is_read(written: str | float, megabytes: int) -> None:
    """Slurm's G is 1024 M, whatever one calls it; ``--mem 64`` on the command line is the ``mem=64`` of Python."""
    assert parse_memory_mb(written) == megabytes


@pytest.mark.parametrize(
    "written", ["much", "1..5G", ".", "0", 0, -1, True, "0.0001M", "G", float("inf"), "9" * 400 + "G"]
)
def test_memory_that_makes_no_sense_is_refused_with_an_example(written: str | float) -> None:
    """Guessing would cost the job."""
    with pytest.raises(InvalidRequest, match='mem="64G"'):
        parse_memory_mb(written)


@pytest.mark.parametrize(("megabytes", "text"), [(65536, "64G"), (500, "500M"), (1536, "1536M")])
def test_memory_is_shown_as_people_write_it(megabytes: int, text: str) -> None:
    """An error about memory that says "0.195312G" has to be worked out first."""
    assert memory_text(megabytes) == text


@pytest.mark.parametrize(
    ("written", "gpus"),
    [
        (4, Gpus(count=4)),
        ("4", Gpus(count=4)),
        ("a100:4", Gpus(count=4, kind="a100")),
        ("2g.10gb:1", Gpus(count=1, kind="2g.10gb")),
        ("1g.10gb+me:1", Gpus(count=1, kind="1g.10gb+me")),
        (0, Gpus(count=0)),
    ],
)
def test_every_way_to_write_gpus_is_read(written: int | str, gpus: Gpus) -> None:
    """A number, a type with a number, or one MIG slice."""
    assert parse_gpus(written) == gpus


@pytest.mark.parametrize("written", ["a100", "many", -1, True, 2.5, "a100:two", ""])
def test_gpus_that_make_no_sense_are_refused_with_examples(written: int | str) -> None:
    """``gpus="a100"`` does not say how many."""
    with pytest.raises(InvalidRequest, match=r'gpus=4 or gpus="a100:4"'):
        parse_gpus(written)


@pytest.mark.parametrize("written", ["2g.10gb:2", "1g.10gb+me:2", "mig-1g.10gb:2"])
def test_more_than_one_mig_slice_is_refused_with_what_to_do_instead(written: str) -> None:
    """A CUDA process sees one slice: the others would be held for nothing."""
    with pytest.raises(InvalidRequest, match="submit_array"):
        parse_gpus(written)


@pytest.mark.parametrize(("gpus", "per_node"), [(Gpus(count=8), "4"), (Gpus(count=8, kind="a100"), "a100:4")])
def test_gpus_are_asked_for_by_node(gpus: Gpus, per_node: str) -> None:
    """``--gpus-per-task`` would hide the other GPUs from each rank and break NCCL's peer-to-peer."""
    assert gpus.per_node(2) == per_node
