"""Threads: as many as this process has CPUs, whatever the machine has."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from helpers.training.threads import choose_threads, fix_threads, read_quota

FOUR = frozenset(range(4))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_alone_a_process_uses_its_cpus() -> None:
    """Its affinity is the truth, not the machine's count."""
    assert choose_threads(FOUR, [FOUR], None) == 4


def test_cpus_that_several_ranks_may_use_are_shared_out() -> None:
    """Four ranks without a binding would start 16 threads on 4 CPUs."""
    assert choose_threads(FOUR, [FOUR] * 4, None) == 1
    assert choose_threads(FOUR, [FOUR] * 2, None) == 2


def test_cpus_that_are_bound_to_a_rank_are_not_divided_again() -> None:
    """4 tasks with 8 CPUs each got one worker of Lightning: it divided what Slurm had divided already."""
    masks = [frozenset(range(8 * rank, 8 * rank + 8)) for rank in range(4)]
    assert choose_threads(masks[2], masks, None) == 8


def test_a_quota_of_the_control_group_is_shared_too() -> None:
    """A container sees all CPUs and may use few."""
    assert choose_threads(FOUR, [FOUR], 2.5) == 2
    assert choose_threads(FOUR, [FOUR] * 2, 0.5) == 1


def test_slurms_count_limits_whole_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm gives both threads of a core where one was asked for; the next node may not."""
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert choose_threads(frozenset({0, 1}), [frozenset({0, 1})], None) == 1


def test_the_users_own_setting_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sets OMP_NUM_THREADS means it."""
    torch.set_num_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert fix_threads([FOUR]) == 3


@pytest.mark.parametrize(
    ("files", "line", "quota"),
    [
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, "0::/a/b", 1.5),
        ({"a/cpu.max": "max 100000"}, "0::/a", None),
        ({"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/a", 2.0),
        ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/a", None),
    ],
)
def test_the_quota_is_read_of_both_versions(
    tmp_path: Path, files: dict[str, str], line: str, quota: float | None
) -> None:
    """The tightest of all groups above counts."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "self").write_text(line + "\n")
    assert read_quota(tmp_path, tmp_path / "self") == quota
