"""A sweep is one line among the runs, and each of its elements a job."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from helpers import JobCancelled, attach, attach_array, grid, submit, submit_array
from tests.unit.submission import functions

Command = Callable[..., Result]


def test_an_array_is_one_row_with_the_count_of_its_elements(command: Command) -> None:
    """A thousand rows would hide everything else."""
    jobs = submit_array(functions.odd_only, range(3), cluster="local")
    assert [job.exception(timeout=240) is None for job in jobs] == [False, True, False]
    done = command("status")
    rows = [line for line in done.stdout.splitlines() if "odd_only" in line]
    assert len(rows) == 1
    assert "FAILED" in rows[0]
    assert "3 elements: 1 completed, 2 failed" in rows[0]


@pytest.mark.parametrize("name", ["status", "show"])
def test_an_array_that_failed_shows_its_elements_and_how_to_go_on(command: Command, name: str) -> None:
    """The table of ``jobs.table()``: ``helpers logs`` of the array itself had nothing to show."""
    jobs = submit_array(functions.odd_only, range(3), cluster="local")
    assert [job.exception(timeout=240) is None for job in jobs] == [False, True, False]
    array = jobs[0].id.removesuffix("_0")
    shown = command(name, array).stdout
    table = [line.split(maxsplit=3) for line in shown.splitlines() if line.startswith(f"{array}_")]
    assert table == [
        [f"{array}_0", "0", "FAILED", "ValueError: 0 is even"],
        [f"{array}_1", "1", "COMPLETED"],
        [f"{array}_2", "2", "FAILED", "ValueError: 2 is even"],
    ]
    assert f"hint: helpers logs {array}_0; what failed, once more: helpers rerun {array} --failed\n" in shown


def test_a_large_array_shows_first_what_failed(command: Command, project: Path) -> None:
    """Element 24 of 25 is what one looks for; how many are left out is said."""
    jobs = submit_array(functions.odd_only, [*[1] * 24, 2], cluster="local")
    assert [job.exception(timeout=240) is None for job in jobs] == [True] * 24 + [False]
    array = jobs[0].id.removesuffix("_0")
    shown = command("status", array).stdout
    assert f"{array}_24" in shown
    assert "\n… and 5 more\n" in shown
    record = json.loads(command("show", array, "--json").stdout)
    assert len(record["elements"]) == 25
    assert record["elements"][24] == {
        "id": f"{array}_24", "arguments": "2", "state": "FAILED", "cause": "ValueError: 2 is even"
    }  # fmt: skip


def test_what_failed_of_an_array_is_rerun_as_a_new_one(command: Command) -> None:
    """As ``jobs.rerun_failed()``, for who has only a shell and an id."""
    jobs = submit_array(functions.odd_only, range(3), cluster="local")
    assert [job.exception(timeout=240) is None for job in jobs] == [False, True, False]
    array = jobs[0].id.removesuffix("_0")
    refused = command("rerun", array)
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"error: {array} is an array; 2 of its 3 jobs failed.\nhint: helpers rerun {array} --failed\n",
    )
    again = command("rerun", array, "--failed")
    assert again.exit_code == 0, again.stderr
    new = attach_array(again.stdout.strip())
    assert [job.description.arguments for job in new] == [["0"], ["2"]]
    assert [job.exception(timeout=240) is None for job in new] == [False, False]
    good = submit_array(functions.odd_only, [1], cluster="local")
    assert good.results(timeout=240) == [1]
    nothing = command("rerun", good[0].id.removesuffix("_0"), "--failed")
    assert (nothing.exit_code, "Nothing of the array" in nothing.stderr) == (2, True)


@pytest.mark.parametrize("words", [["logs"], ["logs", "-f"], ["resume"]])
def test_what_is_done_one_by_one_names_one(command: Command, words: list[str]) -> None:
    """Followed as one job, an array was called lost, and its folder said so from then on."""
    jobs = submit_array(functions.odd_only, [1, 2], cluster="local")
    assert [job.exception(timeout=240) is None for job in jobs] == [True, False]
    array = jobs[0].id.removesuffix("_0")
    done = command(*words, array)
    assert (done.exit_code, f"hint: helpers {words[0]} {array}_1" in done.stderr) == (2, True)
    assert not (jobs.folder / "status.json").exists()


def test_a_shell_is_answered_in_its_own_words(command: Command) -> None:
    """``attach("local-1")`` cannot be pasted there."""
    job = submit(functions.add, 1, 2, cluster="local")
    assert job.result(timeout=240) == 3
    done = command("rerun", job.id, "--failed")
    assert (done.exit_code, f"hint: helpers rerun {job.id}\n" in done.stderr) == (2, True)
    jobs = submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="local")
    array = jobs[0].id.removesuffix("_0")
    assert jobs.results(timeout=240) == [4, 5]
    done = command("checkpoint", "ls", array)
    assert (done.exit_code, f"hint: helpers checkpoint ls {array}_0\n" in done.stderr) == (2, True)
    done = command("submit", "script:nothing", "--after", array, "--cluster", "local", "--wait")
    assert (done.exit_code, "completed" in done.stderr) == (0, True)


def test_an_element_that_has_not_begun_is_found_by_its_id(command: Command) -> None:
    """Of a thousand that wait, one is cancelled."""
    jobs = submit_array(functions.sleep, [60, 60], max_running=1, cluster="local")
    array = jobs[0].id.removesuffix("_0")
    assert json.loads(command("status", f"{array}_1", "--json").stdout)[0]["id"] == f"{array}_1"
    assert command("cancel", f"{array}_1").exit_code == 0
    assert command("status", f"{array}_7").exit_code == 2
    jobs.cancel()
    assert [type(job.exception(timeout=240)) for job in jobs] == [JobCancelled, JobCancelled]


def test_an_element_is_rerun_from_a_shell_with_its_code(command: Command, project: Path) -> None:
    """It was loaded with the search path of the submission, and submitted with that of the shell; and as it is now."""
    (project / "pyproject.toml").write_text("[tool.helpers]\n")
    (project / "sums.py").write_text("def add(a):\n    return a + 1\n")
    script = (
        "import sys; sys.path.insert(0, '.')\nimport sums\nfrom helpers import submit_array\n"
        "jobs = submit_array(sums.add, [1, 2], cluster='local')\njobs.results(240)\nprint(jobs[1].id)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, check=True)
    (project / "sums.py").write_text("def add(a):\n    return a + 100\n")
    again = command("rerun", done.stdout.strip())
    assert again.exit_code == 0
    assert attach(again.stdout.strip()).result(timeout=240) == 3
    assert attach(done.stdout.strip()).result(timeout=240) == 3


def test_an_element_is_found_by_its_id(command: Command) -> None:
    """As any other job."""
    jobs = submit_array(functions.add, grid(a=[1, 2], b=[3]), cluster="local")
    assert jobs.results(timeout=240) == [4, 5]
    assert command("status", jobs[1].id).exit_code == 0
    assert "adding" in command("logs", jobs[1].id).stdout
