"""What a caller gets for each way in which a job can end, from a Slurm with accounting and from a forgetful one.

All jobs of a cluster run at once, submitted by ``endings_driver``; these tests look at what it wrote down.
"""

import pickle
import re
import subprocess
import sys
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from helpers import errors
from helpers.runtime.run.status import State
from helpers.submission.clusters import slurm_queue
from helpers.submission.clusters.slurm_queue import Observation
from tests.cluster import Cluster
from tests.cluster.client import client_environment
from tests.slurm.conftest import ClusterWith
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
CLUSTERS = {"accounting": {}, "forgetful": {"accounting": False, "min_job_age": 10}}
SOON_S = 120

Endings = dict[str, dict[str, Any]]


def start_driver(cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.slurm.endings_driver", str(folder / "endings.pkl")],
        cwd=folder,
        env=client_environment() | cluster.environment | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def all_endings(cluster_with: ClusterWith, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Endings]:
    """What happened on each of the clusters, at the same time: a time limit takes more than a minute."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CLUSTERS}
    drivers = {name: start_driver(cluster_with(**CLUSTERS[name]), folder) for name, folder in folders.items()}
    printed = {name: driver.communicate(timeout=240)[1] for name, driver in drivers.items()}
    assert {name: printed[name] for name, driver in drivers.items() if driver.returncode} == {}
    return {name: pickle.loads((folder / "endings.pkl").read_bytes()) for name, folder in folders.items()}


@pytest.fixture(params=CLUSTERS)
def endings(request: pytest.FixtureRequest, all_endings: dict[str, Endings]) -> Endings:
    """The endings on one of the clusters."""
    return all_endings[request.param]


KINDS = [
    ("returned", "COMPLETED", type(None)),
    ("raised", "FAILED", ValueError),
    ("cannot be rebuilt", "FAILED", errors.JobFailed),
    ("sys.exit", "FAILED", errors.JobExited),
    ("exited", "FAILED", errors.JobExited),
    ("killed", "FAILED", errors.JobKilled),
    ("out of memory", "OUT_OF_MEMORY", errors.JobOutOfMemory),
    ("rank 1 raised", "FAILED", ValueError),
    ("rank 1 killed", "FAILED", errors.JobKilled),
    ("set-up", "FAILED", errors.SetupFailed),
    ("not saved", "FAILED", errors.ResultNotSaved),
    ("time limit", "TIMEOUT", errors.TimeLimitReached),
    ("time limit with a handler", "TIMEOUT", errors.TimeLimitReached),
    ("cancelled pending", "CANCELLED", errors.JobCancelled),
    ("cancelled running", "CANCELLED", errors.JobCancelled),
    ("cancelled with a handler", "CANCELLED", errors.JobCancelled),
    ("batch script killed", "FAILED", errors.JobKilled),
]


@pytest.mark.parametrize(("ending", "state", "kind"), KINDS)
def test_every_ending_has_its_own_state_and_class(endings: Endings, ending: str, state: str, kind: type) -> None:
    """A caller decides by the class what to do next; one message for all endings tells nothing."""
    assert (endings[ending]["state"], type(endings[ending]["error"])) == (state, kind)


@pytest.mark.parametrize("ending", [name for name, *_ in KINDS if not name.startswith("time limit")])
def test_a_job_that_is_over_is_noticed_soon(endings: Endings, ending: str) -> None:
    """C01: the caller waits for ever where only the file of the result is watched."""
    assert endings[ending]["after_s"] < SOON_S


@pytest.mark.parametrize("ending", [name for name, _, kind in KINDS if issubclass(kind, errors.JobError)])
def test_every_error_says_which_job_it_was_and_what_to_do(endings: Endings, ending: str) -> None:
    """The message alone has to be enough: job id, run folder, and a line to paste."""
    error = endings[ending]["error"]
    assert (error.facts.job_id, Path(error.facts.folder).is_dir(), bool(error.hint)) == (
        endings[ending]["id"],
        True,
        True,
    )


def test_an_exception_comes_with_its_traceback(endings: Endings) -> None:
    """C06: the user looks for their own file and line."""
    cause = endings["raised"]["cause"]
    assert "functions.py" in cause
    assert "in raise_here" in cause
    assert cause.rstrip('"\n').endswith("ValueError: boom-123")


def test_an_exception_carries_the_facts_of_the_job(endings: Endings) -> None:
    """Only its notes can tell where it happened: its class is the user's own."""
    record = endings["raised"]
    assert f"job: {record['id']}" in "\n".join(record["error"].__notes__)


def test_the_log_of_a_failed_job_tells_the_same(endings: Endings) -> None:
    """C06: who comes later has the log only."""
    logs = endings["raised"]["logs"]
    assert "before\n" in logs
    assert "ValueError: boom-123" in logs


def test_slurm_calls_a_job_failed_whose_function_raised(all_endings: dict[str, Endings]) -> None:
    """C06: a dependent job must not run, and squeue must not say COMPLETED."""
    shown = all_endings["accounting"]["raised"]["controller"]
    assert "JobState=FAILED" in shown
    assert "ExitCode=1:0" in shown


def test_an_exception_that_cannot_be_rebuilt_is_shown_as_text(endings: Endings) -> None:
    """C07: its class, its message and its traceback, and no error about its own __init__."""
    record = endings["cannot be rebuilt"]
    assert "TwoArguments: bad" in str(record["error"])
    assert "in raise_two_arguments" in record["cause"]


def test_an_exit_code_is_told(endings: Endings) -> None:
    """C01: told apart from an exception, and from the -9 that ``srun`` gives to the other rank."""
    assert endings["exited"]["error"].facts.exit_code == 5


def test_the_signal_and_the_node_are_told(endings: Endings) -> None:
    """C01: SIGKILL on gpu3 again and again is a fault of gpu3."""
    facts = endings["killed"]["error"].facts
    assert (facts.signal, facts.node.endswith(("gpu1", "gpu2"))) == ("SIGKILL", True)


@pytest.mark.parametrize("ending", ["rank 1 raised", "rank 1 killed"])
def test_the_rank_that_died_is_the_one_that_is_shown(endings: Endings, ending: str) -> None:
    """C33: the other ranks are ended because of it, and must not be taken for the culprit."""
    text = "\n".join([str(endings[ending]["error"]), *getattr(endings[ending]["error"], "__notes__", [])])
    assert "rank: 1" in text


def test_the_peak_and_the_memory_that_was_asked_for_are_named(endings: Endings) -> None:
    """The next step is to ask for more than that; the kernel's count is there without accounting too."""
    assert re.search(
        r"it asked for \(200M per node\); its peak on \S+ was 200M\.", endings["out of memory"]["error"].message
    )


def test_the_set_up_line_that_failed_is_shown_with_the_shells_words(endings: Endings) -> None:
    """C45: a function that runs in the wrong environment fails much later, for a reason nobody sees."""
    text = str(endings["set-up"]["error"])
    assert "module load cuda" in text
    assert "command not found" in text


def test_a_value_that_cannot_be_saved_is_named_by_its_type(endings: Endings) -> None:
    """C07: the function finished; what is missing is its value."""
    assert "_thread.lock" in str(endings["not saved"]["error"])


def test_a_cancel_is_also_the_one_of_concurrent_futures(endings: Endings) -> None:
    """Code written for futures catches CancelledError."""
    assert isinstance(endings["cancelled running"]["error"], CancelledError)


@pytest.mark.parametrize("ending", [name for name, _, kind in KINDS if kind is not type(None)])
def test_no_ending_looks_like_a_wait_that_took_too_long(endings: Endings, ending: str) -> None:
    """``result(timeout=…)`` raises TimeoutError while the job still runs; a caller then waits again."""
    assert not isinstance(endings[ending]["error"], TimeoutError)


def test_elements_that_were_cancelled_in_the_queue_are_known_to_the_accounting(slurm_env: dict[str, str]) -> None:
    """It has one line for all that never began, and finds it by none of their ids."""
    assert slurm_env
    hold = ["sbatch", "--parsable", "--hold", "--array=0-8:2,1%2", "--output=/dev/null", "--wrap=true"]
    array = subprocess.run(hold, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["scancel", array], check=True)
    wanted = {f"{array}_{number}" for number in (0, 1, 8)}

    def seen() -> dict[str, Observation]:
        found = slurm_queue._ask_sacct(wanted)
        return {} if found and found[f"{array}_0"].word == "PENDING" else found

    known = wait_for(seen, "the accounting knows the array", within_s=SOON_S)
    assert {job_id: one.state for job_id, one in known.items()} == dict.fromkeys(wanted, State.CANCELLED)
