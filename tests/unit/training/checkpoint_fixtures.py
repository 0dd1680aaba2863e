"""What the tests of checkpoints share: no job around them, a folder with checkpoints, a look at it."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.runtime import stop
from helpers.training import Checkpointer


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No run, no rank, nobody who asks to stop; the test's own folder."""
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stop, "_request", None)


def steps_in(folder: Path) -> list[str]:
    """Return the names of the checkpoints in a folder."""
    return sorted(path.name for path in folder.glob("step-*"))


def names_in(folder: Path) -> list[str]:
    """Return all names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def three_checkpoints(folder: Path) -> Path:
    """Save the values 1, 2 and 3, and leave the folder as a process does that is gone."""
    state = {"x": torch.zeros(50), "n": 0}
    checkpoint = Checkpointer(state, folder=folder, save_every=1)
    for step in checkpoint.steps(3):
        state["n"] = step + 1
        state["x"].fill_(step + 1)
        torch.rand(1)  # so that the ranks' files differ too
    (folder / "lease.json").unlink()
    return folder


def restored(folder: Path) -> int:
    """Restore, make sure that the parts belong together, and return the value."""
    state: dict[str, Any] = {"x": torch.zeros_like(Checkpointer.load(folder, "x")), "n": 0}
    step = Checkpointer(state, folder=folder).restore()
    assert set(state["x"].tolist()) == {state["n"]}
    assert step == state["n"]
    return step


def in_child(work: Callable[..., None], *arguments: Any) -> int:
    """Do ``work`` in a forked process (with tensors too small for torch's threads); return its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        except BaseException:  # noqa: BLE001 -- pytest must not go on in the child
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
