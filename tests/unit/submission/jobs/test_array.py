"""A sweep on this machine: the same call, the same jobs, a few at a time."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from helpers import InvalidRequest, JobCancelled, attach, attach_array, call, grid, submit, submit_array
from helpers.cli.main import app
from helpers.runtime.run.element import element_folder
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.status import State, Status, write_status
from helpers.submission.jobs.array import Table
from helpers.submission.jobs.array_status import array_status
from tests.unit.submission import functions
from tests.waiting import wait_for

PATIENCE_S = 240


def test_results_come_in_the_order_of_the_items(project: Path) -> None:
    """Whichever ends first."""
    jobs = submit_array(functions.add, [call(1, b=1), call(5, b=5)], cluster="local")
    assert jobs.results(timeout=PATIENCE_S) == [2, 10]
    assert [job.folder.name for job in jobs] == ["0", "1"]
    assert attach_array(jobs.folder).results(timeout=PATIENCE_S) == [2, 10]


def test_no_more_run_at_a_time_than_allowed(project: Path) -> None:
    """A workstation is shared, too."""
    spans = submit_array(
        functions.span, grid(number=range(3), folder=[str(project)]), max_running=1, cluster="local"
    ).results(timeout=PATIENCE_S)
    assert all(first[2] <= second[1] for first, second in itertools.pairwise(spans))


def test_an_element_that_waits_can_be_cancelled(project: Path) -> None:
    """It never begins, and the others go on."""
    jobs = submit_array(
        functions.wait_for_file, grid(folder=[str(project)], number=range(2)), max_running=1, cluster="local"
    )
    wait_for((project / "waits-0").exists)
    jobs[1].cancel()
    (project / "go").touch()
    with pytest.raises(JobCancelled):
        jobs[1].result(timeout=PATIENCE_S)
    assert jobs[0].result(timeout=PATIENCE_S) == 0
    assert not (project / "waits-1").exists()


def test_the_whole_is_cancelled_by_its_id(project: Path) -> None:
    """What Ctrl-C says one can do; from a shell, too."""
    jobs = submit_array(
        functions.wait_for_file, grid(folder=[str(project)], number=range(3)), max_running=1, cluster="local"
    )
    wait_for((project / "waits-0").exists)
    done = CliRunner().invoke(app, ["cancel", jobs[0].id.partition("_")[0]])
    assert done.exit_code == 0
    assert all(isinstance(job.exception(timeout=PATIENCE_S), JobCancelled) for job in jobs)


def test_an_argument_that_does_not_fit_stops_the_whole_sweep(project: Path) -> None:
    """The hundredth item is checked before the first is queued."""
    with pytest.raises(InvalidRequest, match="unexpected keyword"):
        submit_array(functions.add, [call(1, b=2), call(1, c=2)], cluster="local")
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_the_limit_is_a_whole_number(value: object) -> None:
    """``%0`` would hold the array for ever."""
    with pytest.raises(InvalidRequest, match="max_running"):
        submit_array(functions.add, [call(1, b=2)], max_running=value, cluster="local")  # type: ignore[arg-type]


def test_what_is_printed_says_that_it_is_of_each(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``4 × gpu · 1 node`` was read as four GPUs."""
    submit_array(functions.add, grid(a=[1, 2], b=[3]), max_running=1, cluster="local").results(timeout=PATIENCE_S)
    assert " · 2 elements, 1 at a time, each: this machine · " in capsys.readouterr().err


def test_a_keyword_that_is_none_is_told_where_it_belongs(project: Path) -> None:
    """``lr`` is an argument of the calls; ``Executor has no keyword`` told nobody that."""
    with pytest.raises(InvalidRequest, match=r"submit_array has no keyword 'lr'; the arguments .* grid\("):
        submit_array(functions.add, [1], lr=3)


def test_one_job_of_an_array_is_attached_to_and_the_whole_is_not(project: Path) -> None:
    """As one job the array was lost: no scheduler knows its number without an index."""
    jobs = submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="local")
    array = jobs[0].id.removesuffix("_0")
    for whole in (array, jobs.folder):
        with pytest.raises(InvalidRequest, match=rf"is an array of 2 jobs(.|\n)*attach\(\"{array}_0\"\)"):
            attach(whole)
    assert attach(f"{array}_1").result(timeout=PATIENCE_S) == 5


def test_failures_are_rerun_from_a_process_with_another_search_path(project: Path) -> None:
    """On another day, from another folder: the function's module was not found."""
    (project / "module").mkdir()
    (project / "module" / "odd_ones.py").write_text("def check(n):\n    return 10 // n\n")
    begin = (
        "import sys; sys.path.insert(0, 'module')\nimport odd_ones\nfrom helpers import submit_array\n"
        "jobs = submit_array(odd_ones.check, [0, 1], cluster='local')\n[job.exception(240) for job in jobs]\n"
        "print(jobs.folder)\n"
    )
    again = (
        "import sys\nfrom helpers import attach_array\njobs = attach_array(sys.argv[1])\n"
        "[job.exception(240) for job in jobs]\nprint(repr(jobs.rerun_failed()[0].exception(240)))\n"
    )
    folder = _printed("-c", begin)
    assert "ZeroDivisionError" in _printed("-c", again, folder)


def _printed(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], text=True, capture_output=True, check=True)
    return done.stdout.strip()


def test_inline_runs_one_after_another(project: Path) -> None:
    """For a debugger."""
    assert submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="inline").results() == [4, 5]


def test_inline_runs_nothing_of_a_sweep_that_breaks_a_rule(project: Path) -> None:
    """As on a cluster: the hundredth item is checked before the first runs."""
    with pytest.raises(InvalidRequest, match="unexpected keyword"):
        submit_array(functions.add, [call(1, b=2), call(1, c=2)], cluster="inline")
    assert list(project.iterdir()) == []


def test_inline_shows_what_it_would_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And runs nothing."""
    submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="inline", dry_run=True)
    assert "# dry run: nothing was queued" in capsys.readouterr().out
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("cluster", ["inline", "local"])
def test_a_job_among_the_arguments_is_its_result(project: Path, cluster: str) -> None:
    """As it is for one job."""
    first = submit(functions.add, 1, 2, cluster="local")
    jobs = submit_array(functions.add, [call(first, b=10), call(100, b=first)], cluster=cluster)
    assert jobs.results(timeout=PATIENCE_S) == [13, 103]


@pytest.mark.parametrize("how", ["jobs.results()", "wait(jobs)", "[None for _ in as_completed(jobs)]"])
def test_ctrl_c_says_what_goes_on(project: Path, how: str) -> None:
    """Also where it is the standard library that waits; an array is one line, and is said once."""
    script = (
        "from concurrent.futures import as_completed, wait\n"
        "from helpers import grid, submit_array\nfrom tests.unit.submission import functions\n"
        "jobs = submit_array(functions.wait_for_file, grid(folder=['.'], number=range(3)), max_running=1, "
        f"cluster='local')\nprint(jobs.folder, flush=True)\n{how}\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as waiting:
        assert waiting.stdout is not None
        folder = waiting.stdout.readline().strip()
        wait_for((project / "waits-0").exists)
        waiting.send_signal(signal.SIGINT)
        _, said = waiting.communicate(timeout=PATIENCE_S)
    (project / "go").touch()
    jobs = attach_array(folder)
    array = jobs[0].id.partition("_")[0]
    assert said.count(f"helpers: interrupted; these go on:\n  {array} wait_for_file: 2 PENDING, 1 RUNNING\n") == 1
    assert f"end them: helpers cancel {array}\n" in said
    assert jobs.results(timeout=PATIENCE_S) == [0, 1, 2]


def test_a_table_prints_in_columns() -> None:
    """To be read at a glance."""
    table = Table([{"element": 0, "cause": ""}, {"element": 10, "cause": "ValueError: x"}])
    assert str(table) == "element  cause\n0\n10       ValueError: x"


def test_an_array_that_was_cancelled_is_not_called_failed(tmp_path: Path) -> None:
    """Nothing has failed; one element that has outweighs the cancel of the others."""
    array, description = RunFolder(tmp_path), SimpleNamespace(elements=[["0"], ["1"], ["2"]])

    def end(number: int, state: State) -> None:
        element = element_folder(array, number)
        element.path.mkdir(parents=True, exist_ok=True)
        write_status(element, Status(state=state, job_id=f"9_{number}", attempt=0, ending=None))

    def state() -> State:
        return array_status(array, description, "9").state  # type: ignore[arg-type]  # all that is looked at

    for number in range(3):
        end(number, State.CANCELLED)
    states = [state()]
    end(0, State.COMPLETED)
    states.append(state())
    end(1, State.FAILED)
    assert [*states, state()] == [State.CANCELLED, State.CANCELLED, State.FAILED]
