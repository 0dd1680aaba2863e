"""One Checkpointer stops a run: two in one loop are refused, one after the other are not."""

from pathlib import Path

import pytest

from helpers.errors import InvalidRequest
from helpers.training import Checkpointer
from helpers.training.checkpoints.lease import FolderTaken
from tests.unit.training.checkpoint_fixtures import outside_a_job, steps_in  # noqa: F401 -- a fixture


@pytest.fixture
def two(tmp_path: Path) -> tuple[Checkpointer, Checkpointer]:
    """Return two Checkpointers with a folder each."""
    return Checkpointer({"a": 1}, folder=tmp_path / "a"), Checkpointer({"b": 1}, folder=tmp_path / "b")


def test_two_that_step_by_turns_are_refused(two: tuple[Checkpointer, Checkpointer]) -> None:
    """A stop is met by the first, which leaves; the second would be resumed from an older step in silence."""
    one, other = two
    one.step()
    other.step()
    with pytest.raises(InvalidRequest, match=r"(?s)One Checkpointer stops a run.*/a and .*/b.*hint: one for both: C"):
        one.step()


def test_a_loop_within_a_loop_is_refused(tmp_path: Path) -> None:
    """The inner one leaves at a stop, and the outer one has not saved what it has done since."""
    outer = Checkpointer({"a": 1}, folder=tmp_path / "outer")
    turns = outer.steps(3)
    for turn in (0, 1):
        assert next(turns) == turn
        list(Checkpointer({"b": 1}, folder=tmp_path / f"inner-{turn}").steps(2))
    with pytest.raises(InvalidRequest, match="One Checkpointer stops a run"):
        next(turns)


def test_epochs_of_two_side_by_side_are_refused(two: tuple[Checkpointer, Checkpointer]) -> None:
    """The end of an epoch is a boundary too."""
    one, other = two
    epochs = zip(one.epochs(2), other.epochs(2), strict=True)
    assert [next(epochs), next(epochs)] == [(0, 0), (1, 1)]
    with pytest.raises(InvalidRequest, match="One Checkpointer stops a run"):
        next(epochs)


def test_one_after_the_other_is_allowed(two: tuple[Checkpointer, Checkpointer], tmp_path: Path) -> None:
    """Pretraining and fine-tuning, or the folds of a cross-validation: each has a loop of its own."""
    for checkpoint in two:
        for _ in checkpoint.epochs(2):
            checkpoint.step()
    assert steps_in(tmp_path / "a") == steps_in(tmp_path / "b") == ["step-00000002-epoch-0002"]


def test_one_that_never_steps_is_in_nobodys_way(two: tuple[Checkpointer, Checkpointer], tmp_path: Path) -> None:
    """It stops nothing."""
    one, other = two
    for _ in one.steps(2):
        other.keep_best(loss=1.0)
    other.save()
    other.wait()
    assert steps_in(tmp_path / "a") == ["step-00000002"]


def test_the_older_of_two_on_one_folder_is_told_the_same(tmp_path: Path) -> None:
    """A folder of its own would only lead it into the next error."""
    one, _ = (Checkpointer({"n": 1}, folder=tmp_path / "c") for _ in range(2))
    one.step()
    one.save()
    with pytest.raises(FolderTaken, match=r'(?s)Another Checkpointer of this process.*Checkpointer\(\{"a": …'):
        one.wait()
