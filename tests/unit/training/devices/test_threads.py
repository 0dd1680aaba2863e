"""Threads: as many as this process has CPUs, whatever the machine has."""

from collections.abc import Iterator

import pytest
import torch

from helpers.training.devices.threads import choose_threads, fix_threads, suggest_workers

FOUR = frozenset(range(4))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "SLURM_CPUS_PER_TASK",
    ):
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
    ("variables", "workers"),
    [
        ({}, 7),
        ({"SLURM_CPUS_PER_TASK": "4"}, 3),
        ({"SLURM_CPUS_PER_TASK": "1"}, 1),
        ({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}, 1),
        ({"SLURM_CPUS_PER_TASK": "6", "RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}, 2),
    ],
)
def test_workers_are_no_more_than_the_cpus_of_the_process(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], workers: int
) -> None:
    """One CPU is left to the training; ranks that share CPUs share them out."""
    monkeypatch.setattr("helpers.training.devices.threads.available_cpus", lambda: frozenset(range(8)))
    monkeypatch.setattr("helpers.training.devices.threads.read_quota", lambda: None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert suggest_workers() == workers
