"""Run again on this machine: a new run from the start, or the same one from its checkpoint."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import Executor, InvalidRequest, Job, JobCancelled, attach, submit, submit_array, submit_command
from helpers.errors import Rejected
from helpers.runtime.run.status import read_ledger
from helpers.submission.clusters.local import LocalCluster
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240
LOCAL = Executor(cluster="local")


def wait_until_started(job: Job[Any], attempt: int = 0) -> None:
    wait_for(lambda: list(job.folder.glob(f"attempts/{attempt}/started-0")))


def events(job: Job[Any]) -> list[str]:
    return [line["event"] for line in read_ledger(job._files)]


@pytest.fixture
def cancelled() -> Job[Any]:
    """A run with a checkpoint, cancelled while it waited for the next step."""
    job = LOCAL.submit(functions.save_and_leave, 2)
    wait_for(lambda: list(job.folder.glob("checkpoints/step-*")))
    job.cancel()
    assert isinstance(job.exception(PATIENCE_S), JobCancelled)
    return job


class TestRerun:
    def test_a_rerun_is_a_new_run_of_the_same_call(self) -> None:
        """New id, new folder, same arguments, settings and script."""
        first = submit(functions.add, 1, b=2, name="sum", setup="export COLOUR=red", processes=2, cluster="local")
        assert first.result(PATIENCE_S) == 3
        second = first.rerun()
        assert second.results(PATIENCE_S) == [3, 3]
        assert (second.id != first.id, second.folder != first.folder, second.name) == (True, True, "sum")
        assert second.script == first.script.replace(first.folder.name, second.folder.name)
        assert (second.description.rerun_of, second.description.arguments) == (str(first.folder), ["1", "b=2"])
        assert events(second) == ["queued", "start", "end"]

    def test_a_rerun_begins_from_the_start(self, cancelled: Job[Any]) -> None:
        """The old checkpoints stay where they are, and are not used."""
        again = cancelled.rerun()
        wait_for(lambda: list(again.folder.glob("checkpoints/step-*")))
        assert [path.name for path in again.folder.glob("checkpoints/*")] == ["step-00000001"]
        again.cancel()
        assert again.exception(PATIENCE_S)

    def test_a_running_job_can_be_rerun(self) -> None:
        """To see it fail twice, side by side."""
        job = LOCAL.submit(functions.sleep, 600)
        again = job.rerun()
        wait_until_started(again)
        for one in (job, again):
            one.cancel()
        assert [type(one.exception(PATIENCE_S)) for one in (job, again)] == [JobCancelled, JobCancelled]

    def test_a_command_is_rerun(self) -> None:
        """Words and all."""
        job = submit_command(["sh", "-c", "echo $HELPERS_RUN"], cluster="local")
        assert job.result(PATIENCE_S) == 0
        again = job.rerun()
        assert (again.result(PATIENCE_S), again.logs(rank=0).splitlines()[1]) == (0, str(again.folder))

    def test_what_ran_inline_is_refused(self) -> None:
        """Its caller has it in hand."""
        job = submit(functions.add, 1, cluster="inline")
        with pytest.raises(InvalidRequest, match="its caller's own process"):
            job.rerun()

    def test_an_element_of_an_array_is_rerun_by_itself(self) -> None:
        """As an array of one: its script is the array's, and its call stays as it was pickled."""
        jobs = LOCAL.map(functions.add, [1, 2])
        assert jobs.results(PATIENCE_S) == [1, 2]
        again = jobs[1].rerun()
        assert (again.result(PATIENCE_S), again.id[-2:], again.folder.name) == (2, "_0", "0")
        assert (again.description.rerun_of, again.description.arguments) == (str(jobs[1].folder), ["2"])


class TestResume:
    def test_a_resumed_run_goes_on_from_its_checkpoint(self, cancelled: Job[Any]) -> None:
        """Same folder, new id, next attempt; the cancel is forgotten, the ledger goes on."""
        first_id = cancelled.id
        again = cancelled.resume()
        assert again.result(PATIENCE_S) == 2
        assert (again.folder, again.attempt, again.state) == (cancelled.folder, 1, "COMPLETED")
        assert again.id != first_id
        assert sorted(events(again)) == ["end", "end", "queued", "queued", "resumed", "start", "start"]
        assert attach(again.id).result(PATIENCE_S) == 2

    def test_a_run_that_was_never_to_run_again_can_be_resumed_by_hand(self) -> None:
        """``requeue=False`` is about what happens by itself."""
        job = submit(functions.save_and_leave, 2, requeue=False, cluster="local")
        wait_for(lambda: list(job.folder.glob("checkpoints/step-*")))
        job.cancel()
        assert job.exception(PATIENCE_S)
        assert job.resume().result(PATIENCE_S) == 2

    def test_a_run_that_was_ended_for_want_of_progress_can_be_resumed(self) -> None:
        """Somebody has looked at it; the count begins anew."""
        job = submit_command(["sh", "-c", '[ "$HELPERS_ATTEMPT" -gt 2 ] || exit 75'], cluster="local")
        assert "asked to be run again" in str(job.exception(PATIENCE_S))
        assert job.resume().result(PATIENCE_S) == 0

    def test_a_run_that_runs_is_refused(self) -> None:
        """Two at a time would write into one folder."""
        job = LOCAL.submit(functions.save_and_leave, 2)
        wait_until_started(job)
        with pytest.raises(InvalidRequest, match=r"has not ended: it is RUNNING(.|\n)*helpers cancel local-"):
            job.resume()
        job.cancel()
        assert job.exception(PATIENCE_S)

    def test_a_run_without_a_checkpoint_is_refused(self) -> None:
        """It would begin from the start, and say that it went on."""
        job = LOCAL.submit(functions.raise_here)
        assert job.exception(PATIENCE_S)
        with pytest.raises(InvalidRequest, match=r"saved nothing(.|\n)*helpers rerun local-"):
            job.resume()

    def test_a_run_that_succeeded_is_refused(self) -> None:
        """There is a result."""
        job = LOCAL.submit(functions.add, 1)
        assert job.result(PATIENCE_S) == 1
        with pytest.raises(InvalidRequest, match="has succeeded"):
            job.resume()

    def test_an_element_of_an_array_goes_on_while_others_run(self) -> None:
        """By itself, under an id of its own, from its checkpoint; nobody waits for the rest of the sweep."""
        jobs = LOCAL.map(functions.save_and_leave, [2, 2, 2], max_running=2)
        wait_for(lambda: list(jobs[1].folder.glob("checkpoints/step-*")))
        jobs[1].cancel()
        assert isinstance(jobs[1].exception(PATIENCE_S), JobCancelled)
        again = jobs[1].resume()
        assert (again.result(PATIENCE_S), again.folder, again.attempt) == (2, jobs[1].folder, 1)
        assert jobs[0].state == "RUNNING"
        assert attach(again.id).folder == jobs[1].folder
        jobs.cancel()
        assert [type(jobs[number].exception(PATIENCE_S)) for number in (0, 2)] == [JobCancelled] * 2

    def test_an_element_that_never_began_is_resumed_as_it_was(self, project: Path) -> None:
        """Cancelled while it waited for its turn, by mistake."""
        hold = "until [ -e go ]; do sleep 0.05; done"
        jobs = submit_array(functions.add, [1, 2], max_running=1, setup=hold, cluster="local")
        jobs[1].cancel()
        (project / "go").touch()
        assert isinstance(jobs[1].exception(PATIENCE_S), JobCancelled)
        assert jobs[1].resume().result(PATIENCE_S) == 2

    def test_a_refusal_by_the_scheduler_leaves_the_run_as_it_was(
        self, cancelled: Job[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing was queued, so nothing has changed."""

        def refuse(*_: Any, **__: Any) -> str:
            raise Rejected("Slurm refused the job: no more jobs")

        monkeypatch.setattr(LocalCluster, "queue", refuse)
        with pytest.raises(Rejected):
            cancelled.resume()
        assert (cancelled.state, (cancelled.folder / "cancelled").exists()) == ("CANCELLED", True)
        assert not (cancelled.folder / "resuming").exists()


class TestLogs:
    @pytest.fixture
    def twice(self) -> Job[Any]:
        """A program that ran twice, in two processes."""
        script = 'echo "attempt $HELPERS_ATTEMPT, rank $RANK"; [ "$HELPERS_ATTEMPT" = 1 ] || exit 75'
        job = submit_command(["sh", "-c", script], processes=2, cluster="local")
        assert job.result(PATIENCE_S) == 0
        return job

    def test_one_attempt_of_one_rank(self, twice: Job[Any]) -> None:
        """The one that failed, of the one that failed."""
        assert twice.logs(rank=1, attempt=0) == "==> logs/0/1.out <==\nattempt 0, rank 1\n"
        everything = twice.logs(attempt=1)
        assert "attempt 1, rank 0" in everything
        assert "attempt 0" not in everything

    def test_following_one_attempt_ends_with_it(self, twice: Job[Any]) -> None:
        """Whatever the run does after it."""
        assert "".join(twice.follow(rank=1, attempt=0)) == "attempt 0, rank 1\n"
        assert "".join(twice.follow(rank=0)) == "attempt 0, rank 0\nattempt 1, rank 0\n"
        for rank in (2, -1):
            with pytest.raises(InvalidRequest, match=f"ranks 0 to 1; got {rank}"):
                twice.logs(rank=rank)
        with pytest.raises(InvalidRequest, match="ranks 0 to 1; got 2"):
            next(twice.follow(rank=2))


def test_ctrl_c_says_what_goes_on(project: Path) -> None:
    """The wait is over; the jobs are not, and somebody must know their ids."""
    script = (
        "from helpers import submit\nfrom tests.unit.submission import functions\n"
        "jobs = [submit(functions.sleep, 600, cluster='local', name=name) for name in ('one', 'two')]\n"
        "import threading\n"  # the ids are printed once result() waits
        "threading.Timer(1, print, [job.id for job in jobs], {'flush': True}).start()\njobs[0].result()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as waiting:
        assert waiting.stdout is not None
        ids = waiting.stdout.readline().split()
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=PATIENCE_S)
    assert f"helpers: interrupted; these go on:\n  {ids[0]} one: " in said
    assert f"end them: helpers cancel {ids[0]} {ids[1]}\n" in said
    assert "KeyboardInterrupt" in said
    for job_id in ids:
        job = attach(job_id)
        assert job.cancel()
        assert job.exception(PATIENCE_S)
