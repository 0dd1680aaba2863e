"""All ranks act at one and the same boundary, whoever asks and however late the others are."""

import random
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from helpers.runtime import stop
from helpers.training.checkpoints import stop_agreement
from helpers.training.checkpoints.last_moment import LastMoment
from helpers.training.checkpoints.stop_agreement import Action, SharedAgreement
from helpers.training.ranks import peers as peers_module
from helpers.training.ranks import rendezvous
from helpers.training.ranks.peers import Peers, PeersLost
from helpers.training.ranks.stores import PrefixStore

WORLD_SIZE = 4


class OneOfSeveral(SharedAgreement):
    """An agreement whose rank is asked to stop by a test instead of a signal."""

    asked = Action.NOTHING

    def _own_wish(self) -> Action:
        return self.asked


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OneOfSeveral]]:
    """Return the agreements of four ranks that share a store, as threads of this process."""
    monkeypatch.setattr(stop_agreement, "POLL_S", 0.005)
    monkeypatch.setattr(stop, "_request", None)
    server = rendezvous.open_store(one_node=True, timeout=timedelta(seconds=60))
    made = [
        OneOfSeveral(
            Peers(
                rank=rank,
                world_size=WORLD_SIZE,
                store=PrefixStore("test", server.store),
                name="test",
                address=server.address,
            ),
            None,
            LastMoment(None),
        )
        for rank in range(WORLD_SIZE)
    ]
    yield made
    peers_module.close_all()


def _train(ranks: list[OneOfSeveral], steps: int, ask: dict[tuple[int, int], Action]) -> list[list[tuple[int, Action]]]:
    """Let each rank pass ``steps`` boundaries with a collective in every step; return who acted where."""
    barrier = threading.Barrier(WORLD_SIZE, timeout=60)
    acted: list[list[tuple[int, Action]]] = [[] for _ in ranks]

    def loop(rank: int) -> None:
        chance = random.Random(rank)  # noqa: S311 -- only when
        for step in range(1, steps + 1):
            time.sleep(chance.uniform(0, 0.01))
            if (rank, step) in ask:
                ranks[rank].asked = ask[rank, step]
            barrier.wait()  # what a gradient's all-reduce is
            time.sleep(chance.uniform(0, 0.01))
            action = ranks[rank].reach_boundary()
            if action is not Action.NOTHING:
                ranks[rank].asked = Action.NOTHING
                acted[rank].append((step, action))
                barrier.wait()  # what saving together is
            if action is Action.LEAVE:
                return

    threads = [threading.Thread(target=loop, args=(rank,)) for rank in range(WORLD_SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return acted


@pytest.mark.parametrize("asking", [(0,), (2,), (1, 3), (0, 1, 2, 3)])
def test_all_ranks_leave_at_the_same_boundary(ranks: list[OneOfSeveral], asking: tuple[int, ...]) -> None:
    """At most two steps after the first was asked."""
    acted = _train(ranks, 200, {(rank, 10 + rank): Action.LEAVE for rank in asking})
    assert len({tuple(each) for each in acted}) == 1
    [(step, action)] = acted[0]
    assert action is Action.LEAVE
    assert 10 + min(asking) <= step <= 20 + max(asking)


def test_saves_follow_each_other_and_a_stop_outranks_them(ranks: list[OneOfSeveral]) -> None:
    """Rank 0's clock asks again and again; then rank 3 must leave."""
    ask = {(0, step): Action.SAVE for step in (5, 30, 55)} | {(3, 80): Action.LEAVE}
    acted = _train(ranks, 200, ask)
    assert len({tuple(each) for each in acted}) == 1
    assert [action for _, action in acted[0]] == [Action.SAVE] * 3 + [Action.LEAVE]


def test_a_rank_that_has_passed_its_last_boundary_does_not_hold_up_the_others(ranks: list[OneOfSeveral]) -> None:
    """Asked at the very end, they finish instead."""
    acted = _train(ranks, 12, {(1, 12): Action.LEAVE})
    assert all(len(each) <= 1 for each in acted)


def test_a_peer_that_never_answers_is_an_error_in_bounded_time(
    ranks: list[OneOfSeveral], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone; Slurm kills us 30 s after it asked."""
    monkeypatch.setattr(stop_agreement, "ANSWER_S", 0.5)
    ranks[3].close()
    ranks[0].asked = Action.LEAVE
    time.sleep(0.1)
    begin = time.monotonic()
    with pytest.raises(PeersLost):
        _pass_boundaries(ranks[0], 50)
    assert time.monotonic() - begin < 20


def _pass_boundaries(rank: OneOfSeveral, count: int) -> None:
    for _ in range(count):
        rank.reach_boundary()
        time.sleep(0.01)


def test_a_boundary_with_nothing_due_costs_microseconds(ranks: list[OneOfSeveral]) -> None:
    """No collective, no network: a lock."""
    rounds = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(1000):
            ranks[0].reach_boundary()
        rounds.append((time.perf_counter() - begin) / 1000)
    assert min(rounds) < 20e-6
