"""What goes wrong with disks and processes costs no finished checkpoint."""

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.runtime import stop
from helpers.runtime.stop import LeaveForRequeue
from helpers.training import Checkpointer, saving, storage
from helpers.training.loading import read_whole
from helpers.training.saving import SaveFailed
from helpers.training.storage import CheckpointFolder, NoWholeCheckpoint

ROOT = Path(__file__).parents[3]
SAVE_FOR_EVER = """
import sys, torch
from helpers.training import Checkpointer
state = {"x": torch.zeros(200_000), "n": 0}
checkpoint = Checkpointer(state, folder=sys.argv[1], save_every=1, keep=2)
for step in checkpoint.steps(10**6):
    state["n"] += 1
    state["x"].fill_(state["n"])
    print(step, flush=True)
"""


@pytest.fixture(autouse=True)
def outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HELPERS_RUN", "HELPERS_ATTEMPT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stop, "_request", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three checkpoints, of the values 1, 2 and 3."""
    state = {"x": torch.zeros(50), "n": 0}
    checkpoint = Checkpointer(state, folder=tmp_path / "c", save_every=1)
    for step in checkpoint.steps(3):
        state["n"] = step + 1
        state["x"].fill_(step + 1)
        torch.rand(1)  # so that the ranks' files differ too
    (tmp_path / "c" / "lease.json").unlink()  # the process that trained is gone
    return tmp_path / "c"


def _restored(folder: Path) -> int:
    """Restore, make sure that the parts belong together, and return the value."""
    state: dict[str, Any] = {"x": torch.zeros_like(Checkpointer.load(folder, "x")), "n": 0}
    step = Checkpointer(state, folder=folder).restore()
    assert set(state["x"].tolist()) == {state["n"]}
    assert step == state["n"]
    return step


def _newest(folder: Path) -> str:
    found = CheckpointFolder(folder).newest_whole(read_whole, set_aside=False)
    assert found is not None
    return found[0].name


def test_any_flipped_bit_makes_it_fall_back_to_the_one_before(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hundreds of bits in every file, the manifest too: wrong data is never loaded."""
    chance = random.Random(1)  # noqa: S311 -- which bits does not matter
    for path in sorted((folder / "step-00000003").iterdir()):
        good = path.read_bytes()
        for _ in range(100):
            bad = bytearray(good)
            bit = chance.randrange(len(bad) * 8)
            bad[bit // 8] ^= 1 << bit % 8
            path.write_bytes(bad)
            assert _newest(folder) == "step-00000002", (path.name, bit)
        path.write_bytes(good)
        assert _newest(folder) == "step-00000003"
    assert "is damaged; an older one is looked for" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "rank-00000.json", "MANIFEST.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "swapped", "longer"])
def test_a_damaged_one_is_named_and_set_aside(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    """The run goes on from the one before, loudly."""
    path = folder / "step-00000003" / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "swapped":
        shutil.copy(folder / "step-00000002" / name, path)
    else:
        path.write_bytes({"cut": data[:-1], "empty": b"", "longer": data + b" "}[damage])
    assert _restored(folder) == 2
    assert "step-00000003" in capsys.readouterr().err
    assert len(list(folder.glob("broken-step-00000003-*"))) == 1
    assert not (folder / "step-00000003").exists()


def test_if_all_are_damaged_it_refuses_again_and_again(folder: Path) -> None:
    """Training must never begin anew in silence, not even at the second try."""
    for path in folder.glob("step-*/state.safetensors"):
        os.truncate(path, 10)
    for _ in range(2):
        with pytest.raises(NoWholeCheckpoint, match="To begin anew on purpose: mv"):
            Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder).restore()


def test_a_folder_that_was_renamed_is_not_believed(folder: Path) -> None:
    """Its manifest says which step it is."""
    (folder / "step-00000003").rename(folder / "step-00000009")
    assert _restored(folder) == 2


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """torch.save over the only copy was unloadable at 3 of 8 such moments, DCP at 6 of 8."""
    chance = random.Random(2)  # noqa: S311 -- nor when
    done = -1
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER, str(tmp_path / "c")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.08))
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        found = _restored(tmp_path / "c")
        finished = int(lines[-1]) if lines else 0
        assert found >= max(finished - 1, done)  # step n is printed when n is being saved, and n-1 is
        done = found
        assert len(list((tmp_path / "c").iterdir())) <= 5  # temporary files do not pile up


def test_a_kill_at_each_system_call_of_a_save_leaves_the_older_one(folder: Path, tmp_path: Path) -> None:
    """A sweep over every call that changes the disk, in a process that dies there."""
    died = 0
    for number in range(100):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(folder, copy)
        code = _in_child(_save_and_die, copy, number)
        assert _restored(copy) in {3, 4}
        shutil.rmtree(copy)
        if code == 0:  # it got through
            break
        assert code == -signal.SIGKILL
        died += 1
    assert died > 10
    assert code == 0


def _in_child(work: Callable[..., None], *arguments: Any) -> int:
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


def _save_and_die(folder: Path, number: int) -> None:
    _die_at_call(number)
    state = {"x": torch.full((50,), 3.0), "n": 3}
    checkpoint = Checkpointer(state, folder=folder)
    checkpoint.restore()
    state["n"] = 4
    state["x"].fill_(4)
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()


def _die_at_call(number: int) -> None:
    """Kill this process at its ``number``-th call of these functions, before it takes effect."""
    left = number

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: Any) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}:
            count()

    real = os.fsync
    os.fsync = lambda descriptor: (count(), real(descriptor))[1]
    sys.addaudithook(hook)


def _fail_to_write(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let writes of tensors fail as on a full disk, as long as the list is not empty."""
    full = [1]
    real = saving.write_tensors

    def write(path: Path, tensors: Any) -> Any:
        if full:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, tensors)

    monkeypatch.setattr(saving, "write_tensors", write)
    return full


def test_a_full_disk_warns_once_leaves_the_older_ones_and_is_recovered_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training is worth more than a checkpoint."""
    state = {"x": torch.zeros(50), "n": 0}
    checkpoint = Checkpointer(state, folder=folder, save_every=1)
    checkpoint.restore()
    full = _fail_to_write(monkeypatch)
    for _ in range(3):
        checkpoint.step()
    checkpoint.wait()
    said = capsys.readouterr().err
    assert said.count("No space left on device") == 1
    assert "training goes on" in said
    assert [path.name for path in folder.glob("step-*")].count("step-00000003") == 1
    assert not list(folder.glob("*.tmp-*"))
    assert Checkpointer.load(folder, "n") == 3
    full.clear()
    checkpoint.step()
    checkpoint.wait()
    assert "can be written again (step 7)" in capsys.readouterr().err
    assert (folder / "step-00000007").exists()


def test_a_save_that_was_asked_for_raises_on_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who calls save() wants to know; it is an OSError with what to look at."""
    checkpoint = Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder)
    checkpoint.restore()
    _fail_to_write(monkeypatch)
    checkpoint.step()
    checkpoint.save()
    with pytest.raises(SaveFailed, match=r"(?s)No space left on device.*hint: df -h") as caught:
        checkpoint.wait()
    assert isinstance(caught.value, OSError)
    assert Checkpointer.load(folder, "n") == 3


def test_a_stop_on_a_full_disk_leaves_for_the_last_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The requeued job goes on from step 3; that is said."""
    checkpoint = Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder)
    checkpoint.restore()
    _fail_to_write(monkeypatch)
    checkpoint.step()
    stop.request_stop("SIGTERM")
    with pytest.raises(LeaveForRequeue, match="step 3 is saved"):
        checkpoint.step()
    assert "go on from step 3 instead" in capsys.readouterr().err


def test_a_stop_on_a_full_disk_without_any_checkpoint_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A requeue would begin anew in silence."""
    checkpoint = Checkpointer({"x": torch.zeros(50)}, folder=tmp_path / "c")
    _fail_to_write(monkeypatch)
    stop.request_stop("SIGTERM")
    with pytest.raises(SaveFailed):
        checkpoint.step()


def test_the_systems_own_refusal_to_write_is_met(folder: Path) -> None:
    """A limit on file sizes, as a quota would: a part of the file is written, then an error comes."""
    assert _in_child(_save_more_than_allowed, folder) == 0
    assert _names(folder) == ["lease.json", "step-00000001", "step-00000002", "step-00000003"]


def _save_more_than_allowed(folder: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    state: dict[str, Any] = {"x": torch.zeros(50), "n": 0}
    checkpoint = Checkpointer(state, folder=folder, save_every=1)
    checkpoint.restore()
    state["n"] = b"x" * 200_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    checkpoint.step()
    checkpoint.wait()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_everything_is_on_the_disk_before_it_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, then their folder, then the rename, then the parent: else a power cut leaves an empty shell."""
    events: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name.split('.tmp-')[0]}")
        real_fsync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        events.append(f"rename {target.name}")
        return real_rename(path, target)

    checkpoint = Checkpointer({"x": torch.zeros(2)}, folder=tmp_path / "c")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    checkpoint.step()
    checkpoint.save()
    checkpoint.wait()
    assert events == [
        "sync rank-00000.json",
        "sync state.safetensors",
        "sync state.json",
        "sync MANIFEST.json",
        "sync step-00000001",
        "rename step-00000001",
        "sync c",
    ]


def test_a_removal_that_is_interrupted_leaves_nothing_that_looks_like_a_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder loses its name before it loses its files."""
    monkeypatch.setattr(storage.shutil, "rmtree", lambda *_a, **_k: None)
    checkpoint = Checkpointer({"x": torch.zeros(50), "n": 0}, folder=folder, save_every=1, keep=1)
    checkpoint.restore()
    checkpoint.step()
    checkpoint.wait()
    assert [name for name in _names(folder) if name.startswith("step-")] == ["step-00000003", "step-00000004"]
