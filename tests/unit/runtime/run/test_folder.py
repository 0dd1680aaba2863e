"""No two starts of a job share an attempt, and nothing is unpickled from a folder that is not ours alone."""

import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from helpers import InvalidRequest
from helpers.runtime.run.folder import RunFolder, check_private, new_run_id, read_private
from helpers.runtime.run.pointer import find_run, point_to_run

STARTS = 16


def test_attempts_are_counted_from_0(run: RunFolder) -> None:
    """By us: SLURM_RESTART_COUNT knows nothing of a successor."""
    assert [run.begin_attempt() for _ in range(3)] == run.attempts() == [0, 1, 2]


def test_attempts_that_start_at_once_in_threads_share_no_number(run: RunFolder) -> None:
    """Making the folder is what claims it."""
    with ThreadPoolExecutor(STARTS) as pool:
        numbers = list(pool.map(lambda _: run.begin_attempt(), range(STARTS)))
    assert sorted(numbers) == list(range(STARTS))


def begin(path: Path) -> int:
    return RunFolder(path).begin_attempt()


def test_attempts_that_start_at_once_in_processes_share_no_number(run: RunFolder) -> None:
    """A node that was thought lost comes back while the job runs elsewhere."""
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        numbers = list(pool.map(begin, [run.path] * STARTS))
    assert sorted(numbers) == list(range(STARTS))


def test_an_attempt_has_a_folder_for_its_logs(run: RunFolder) -> None:
    """Slurm does not make it, and the job fails without a word."""
    run.begin_attempt()
    assert (run.logs / "0").is_dir()


def test_the_pickles_folder_is_private_from_the_start(run: RunFolder) -> None:
    """Whatever the umask is."""
    assert run.private.stat().st_mode & 0o777 == 0o700
    check_private(run.private)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_refused_with_the_cure(run: RunFolder, mode: int) -> None:
    """What they put there would run with our rights."""
    run.private.chmod(mode)
    with pytest.raises(PermissionError, match=f"chmod 700 {run.private}"):
        check_private(run.private)


def test_a_folder_of_somebody_else_is_refused(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is theirs to write, whatever its mode says."""
    monkeypatch.setattr(os, "getuid", lambda: run.private.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to user id"):
        check_private(run.private)


def test_a_link_in_the_place_of_the_folder_is_refused(run: RunFolder, tmp_path: Path) -> None:
    """Where it leads to, its maker decides."""
    run.private.rename(tmp_path / "elsewhere")
    run.private.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="is a link"):
        check_private(run.private)


def test_a_private_file_is_read(run: RunFolder) -> None:
    """As whatever its owner has written."""
    run.call.touch(mode=0o600)
    run.call.write_bytes(b"bytes")
    assert read_private(run.call) == b"bytes"


def test_a_file_that_others_can_write_to_is_refused_with_the_cure(run: RunFolder) -> None:
    """The folder may have been open before, and is closed since."""
    run.call.touch()
    run.call.chmod(0o620)
    with pytest.raises(PermissionError, match=f"chmod 600 {run.call}"):
        read_private(run.call)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_in_a_folder_of_ours_is_refused(run: RunFolder) -> None:
    """A privileged copy, or a folder that was open before, leaves such."""
    run.call.touch(mode=0o600)
    os.chown(run.call, 12345, -1)
    with pytest.raises(PermissionError, match="belongs to user id 12345"):
        read_private(run.call)


def test_a_link_in_the_place_of_a_file_is_refused(run: RunFolder, tmp_path: Path) -> None:
    """It may lead to what others write."""
    (tmp_path / "theirs").touch(mode=0o600)
    run.call.symlink_to(tmp_path / "theirs")
    with pytest.raises(PermissionError, match="is a link"):
        read_private(run.call)


def test_a_folder_that_exists_is_not_taken_over(run: RunFolder) -> None:
    """It holds another run."""
    with pytest.raises(InvalidRequest, match="cannot be made"):
        run.create()


def test_run_ids_are_sorted_by_time_and_never_the_same() -> None:
    """Two submissions within one second are usual."""
    ids = [new_run_id() for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(len(run_id) == len("20300101-000000-abcdef") for run_id in ids)


def test_a_run_is_found_by_the_id_of_its_cluster(run: RunFolder) -> None:
    """The client writes the pointer, and the job once more."""
    runs = run.path.parent.parent
    point_to_run(run, "demo", "4711")
    point_to_run(run, "demo", "4711")
    assert (find_run(runs, "4711"), find_run(runs, "471"), find_run(runs, "local-4711")) == (run.path, None, None)
