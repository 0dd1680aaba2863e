"""Who gets which GPU of a machine that many share."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from helpers import InvalidRequest
from helpers.runtime.gpus.lease import Lease, explain, give, new_ticket, wait_for_gpus
from helpers.runtime.gpus.nvml import Gpu, GpuProcess
from helpers.runtime.gpus.queue import GpuQueue, leases_folder
from helpers.runtime.gpus.ticket import Ticket
from tests.waiting import wait_for

CROWD = Path(__file__).parent / "programs" / "lease_crowd.py"
ROOT = Path(__file__).parents[4]
GPUS = [Gpu(uuid=f"GPU-{index}", index=str(index)) for index in range(4)]
NOW = 1000.0


def ticket(number: int, wants: int = 1, **others: Any) -> Ticket:
    facts = {"key": "k", "job": f"local-{number}", "folder": "/runs/a", "pid": 1, "looked": NOW}
    return Ticket(**{**facts, "number": number, "wants": wants, "among": [gpu.uuid for gpu in GPUS], **others})


class TestTurns:
    def test_the_first_is_served_first(self) -> None:
        """And the second takes what the first will leave."""
        first, second = ticket(1), ticket(2)
        assert give(second, [first, second], set(), now=NOW) == ["GPU-1"]
        assert give(first, [first, second], set(), now=NOW) == ["GPU-0"]

    def test_a_job_of_four_is_not_starved_by_jobs_of_one(self) -> None:
        """What it still lacks is waited for; what is free meanwhile is kept for it."""
        holder, large, small = ticket(1, held=["GPU-0"]), ticket(2, wants=4), ticket(3)
        assert give(small, [holder, large, small], set(), now=NOW) == []
        assert give(large, [large, small], set(), now=NOW) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]

    def test_nothing_is_kept_for_a_job_that_a_foreign_program_keeps_waiting(self) -> None:
        """That may take a week, and nobody could compute."""
        large, small = ticket(1, wants=4), ticket(2)
        assert give(small, [large, small], {"GPU-0"}, now=NOW) == ["GPU-1"]

    def test_nothing_is_kept_for_a_job_that_does_not_look(self) -> None:
        """Its process may be stopped; when it goes on, it still has its place."""
        asleep, awake = ticket(1, wants=4, looked=NOW - 200), ticket(2)
        assert give(awake, [asleep, awake], set(), now=NOW) == ["GPU-0"]

    def test_a_foreign_program_is_left_alone_unless_allowed(self) -> None:
        """Two that share a GPU run out of its memory."""
        polite, bold = ticket(1, among=["GPU-0"]), ticket(1, among=["GPU-0"], takes_used=True)
        assert give(polite, [polite], {"GPU-0"}, now=NOW) == []
        assert give(bold, [bold], {"GPU-0"}, now=NOW) == ["GPU-0"]

    def test_a_job_of_a_job_shares_what_that_holds(self) -> None:
        """It would wait for its own parent; with its sisters it shares nothing."""
        parent = ticket(1, held=["GPU-0"])
        child = ticket(2, among=["GPU-0"], within=[parent.name])
        sister = ticket(3, among=["GPU-0"], within=[parent.name])
        assert give(child, [parent, child, sister], set(), now=NOW) == ["GPU-0"]
        holding = ticket(2, among=["GPU-0"], within=[parent.name], held=["GPU-0"])
        assert give(sister, [parent, holding, sister], set(), now=NOW) == []

    def test_who_waits_is_told_for_whom(self) -> None:
        """With user and process: one can go and ask."""
        gpus = [*GPUS[:1], Gpu(uuid="GPU-1", index="1", processes=(GpuProcess(pid=os.getpid(), memory_mb=900),))]
        holder = ticket(1, held=["GPU-0"], uid=os.getuid(), since=NOW)
        waits = ticket(3, among=["GPU-0", "GPU-1"])
        reason = explain(waits, [holder, ticket(2), waits], gpus)
        assert reason.startswith("waits for 1 GPU of this machine: GPU 0 is held by job local-1 of ")
        assert f"GPU 1 is used without a lease by pid {os.getpid()} of " in reason
        assert reason.endswith(" with 900 MiB; 1 job is before it")


def lease(queue: GpuQueue, *, wants: int = 1, gpus: list[Gpu] = GPUS, said: list[str] | None = None) -> Lease:
    wanted = new_ticket({}, gpus, job="local-1", folder="/runs/a", wants=wants)
    tell = said.append if said is not None else lambda _: None
    found = wait_for_gpus(queue, wanted, is_stopped=lambda: False, tell=tell, ask_driver=lambda: gpus, poll_s=0.01)
    assert found is not None
    return found


class TestQueue:
    @pytest.fixture
    def queue(self, tmp_path: Path) -> GpuQueue:
        return GpuQueue(tmp_path / "leases")

    def test_a_crowd_whose_members_are_killed_never_holds_one_twice_and_nobody_starves(self, tmp_path: Path) -> None:
        """24 processes, 240 leases of 1, 2 and 4 GPUs, 30 kills: each gets what it wants; all are free at the end."""
        done = subprocess.run(
            [sys.executable, CROWD, tmp_path, "24", "10", "30"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        happened = json.loads(done.stdout)
        assert happened["leases"] >= 240
        assert (happened["wrong"], happened["left"], happened["killed"]) == ([], [], 30)

    def test_what_a_rank_computes_on_stays_leased_after_its_supervisor_is_killed(
        self, queue: GpuQueue, tmp_path: Path
    ) -> None:
        """It is the rank that has memory on the GPU; when that is gone too, the kernel frees it."""
        code = (
            "import os, subprocess, sys; from pathlib import Path\n"
            "from tests.unit.runtime.gpus.test_lease import lease; from helpers.runtime.gpus.queue import GpuQueue\n"
            "held = lease(GpuQueue(Path(sys.argv[1])), wants=2)\n"
            "rank = subprocess.Popen(['sleep', '600'], stdout=2, pass_fds=[held.descriptor])\n"
            "print(rank.pid, flush=True); os.kill(os.getpid(), 9)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, queue.folder],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        assert [one.held for one in queue.look()] == [["GPU-0", "GPU-1"]]
        os.kill(int(done.stdout), 9)
        wait_for(lambda: not queue.look())
        assert [path.name for path in queue.folder.iterdir()] == ["lock"]

    def test_a_foreign_program_is_waited_for(self, queue: GpuQueue) -> None:
        """It is seen although it has never heard of leases."""
        used = [Gpu(uuid="GPU-0", index="0", processes=(GpuProcess(pid=1, memory_mb=5),))]
        answers, said = iter([used, used]), list[str]()
        wanted = new_ticket({}, used, job="local-1", folder="", wants=1)
        held = wait_for_gpus(
            queue,
            wanted,
            is_stopped=lambda: False,
            tell=said.append,
            ask_driver=lambda: next(answers, GPUS[:1]),
            poll_s=0.01,
        )
        assert held is not None
        assert said == ["waits for 1 GPU of this machine: GPU 0 is used without a lease by pid 1 of root with 5 MiB"]
        held.give_back()

    def test_who_is_stopped_leaves_the_queue(self, queue: GpuQueue) -> None:
        """A cancelled job keeps nobody waiting."""
        wanted = new_ticket({}, GPUS, job="local-1", folder="", wants=1)
        assert wait_for_gpus(queue, wanted, is_stopped=lambda: True, tell=print, ask_driver=lambda: GPUS) is None
        assert queue.look() == []

    def test_a_gpu_without_work_is_noted(self, queue: GpuQueue, cards: Any) -> None:
        """Since when, for whoever asks."""
        cards.are([{"uuid": "GPU-0"}, {"uuid": "GPU-1", "busy": 3}])
        held = lease(queue, wants=2)
        before = time.time()
        held.note_use()
        assert {uuid: since >= before for uuid, since in queue.idle_since(queue.look()[0]).items()} == {"GPU-0": True}
        held.give_back()
        assert [path.name for path in queue.folder.iterdir()] == ["lock"]

    def test_an_idle_gpu_stays_so_from_look_to_look(self, queue: GpuQueue, cards: Any) -> None:
        """Begun anew at each look, once a minute, no GPU was ever idle for ten."""
        cards.number(1)
        held = lease(queue)
        held.note_use()
        since = queue.idle_since(queue.look()[0])
        held._next_note = 0.0
        held.note_use()
        assert queue.idle_since(queue.look()[0]) == since != {}
        held.give_back()


class TestFolder:
    def test_it_is_everybodys_whatever_the_umask(self, tmp_path: Path) -> None:
        """The first user's umask would lock out all others."""
        before = os.umask(0o077)
        try:
            held = lease(GpuQueue(tmp_path / "leases"))
        finally:
            os.umask(before)
        modes = {path.name[:6]: path.stat().st_mode & 0o7777 for path in (tmp_path / "leases").iterdir()}
        held.give_back()
        assert ((tmp_path / "leases").stat().st_mode & 0o7777, modes) == (0o1777, {"lock": 0o644, "ticket": 0o644})

    def test_a_link_in_its_place_is_refused(self, tmp_path: Path) -> None:
        """Somebody's trap in a folder that all can write."""
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "leases").symlink_to("elsewhere")
        with pytest.raises(InvalidRequest, match="no folder of mode 1777"):
            lease(GpuQueue(tmp_path / "leases"))

    def test_one_that_not_all_can_use_safely_is_refused(self, tmp_path: Path) -> None:
        """Without the sticky bit one user could remove another's lease."""
        folder = tmp_path / "leases"
        folder.mkdir()
        folder.chmod(0o777)
        with pytest.raises(InvalidRequest, match=r"mode 1777(.|\n)*sudo chmod 1777"):
            lease(GpuQueue(folder))

    def test_what_others_have_put_there_does_no_harm(self, tmp_path: Path) -> None:
        """A link to a secret, a pipe that would never answer, a folder, half a ticket."""
        queue = GpuQueue(tmp_path / "leases")
        lease(queue).give_back()
        (tmp_path / "secret").write_text("{}")
        (queue.folder / "ticket-1-00000001.json").symlink_to(tmp_path / "secret")
        os.mkfifo(queue.folder / "ticket-2-00000002.json")
        (queue.folder / "ticket-3-00000003.json").mkdir()
        (queue.folder / "ticket-4-00000004.json").write_text('{"held": ["GPU-')
        held = lease(queue)
        assert held.ticket.held == ["GPU-0"]
        held.give_back()
        assert (tmp_path / "secret").read_text() == "{}"

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
    def test_two_users_see_each_others_leases(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Nobody's comes second, in a folder that root has made, with a umask that hides everything."""
        folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own folders are root's alone
        try:
            folder.chmod(0o777)
            queue = GpuQueue(folder / "leases")
            mine, held = lease(queue), list[str]()
            theirs = os.fork()
            if theirs == 0:
                try:
                    os.setuid(65534)
                    os.umask(0o077)
                    held = lease(queue).ticket.held
                finally:
                    os._exit(0 if held == ["GPU-1"] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(theirs, 0)[1]) == 0
            mine.give_back()
            assert queue.look() == []
        finally:
            shutil.rmtree(folder)

    @pytest.mark.parametrize(
        "record",
        [
            "[" * 60000,
            '{"held": 7}',
            '{"since": NaN}',
            '{"since": 1e400}',
            '{"held": [1], "among": "x"}',
            "\xff",
            '"x"',
        ],
    )
    def test_a_living_ticket_of_nonsense_does_no_harm(self, tmp_path: Path, record: str) -> None:
        """Somebody tries."""
        queue = GpuQueue(tmp_path / "leases")
        lease(queue).give_back()
        fields = '{"number": 1, "key": "", "job": "j", "folder": "", "pid": 1, "wants": 1, "among": [], '
        text = fields + record[1:] if record.startswith("{") else record
        with (queue.folder / "ticket-999999999999-00000004.json").open("w", encoding="latin-1") as file:
            file.write(text)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            held = lease(queue)
            assert held.ticket.held == ["GPU-0"]
            held.give_back()

    def test_no_words_of_another_user_move_the_cursor(self, tmp_path: Path) -> None:
        """They are shown in everybody's terminal."""
        queue = GpuQueue(tmp_path / "leases")
        with queue.locked():
            descriptor, _ = queue.add(ticket(1, job="\x1b[2Jlocal-1"))
        assert queue.look()[0].job == "?[2Jlocal-1"
        os.close(descriptor)

    def test_it_can_be_named(self, tmp_path: Path) -> None:
        """Where /tmp is not one and the same for all users."""
        assert leases_folder({"HELPERS_LEASES": str(tmp_path)}) == tmp_path
        assert leases_folder({}).name == "slurm-torch-helpers"
