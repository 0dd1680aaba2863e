"""What the batch script calls around ``srun``: ``python -m helpers.runtime.attempt.batch begin|end|setup-failed``.

It runs in the batch shell, never inside a container, so it can ask the scheduler for a requeue wherever the
ranks themselves run.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from helpers.runtime.attempt import attempt, slurm
from helpers.runtime.attempt.dependencies import waited_for
from helpers.runtime.attempt.resumption import has_started, newest_step
from helpers.runtime.attempt.total_time import total_time_left_s, within_total_time
from helpers.runtime.current import ATTEMPT_VARIABLE, END_TIME_VARIABLE, LOCAL_ID_VARIABLE, RUN_VARIABLE
from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.rank.meeting_point import meeting_point
from helpers.runtime.raw_data import REFUSE
from helpers.runtime.run.description import Description, read_description
from helpers.runtime.run.element import array_of, begin_element, script_of
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.pointer import point_to_run
from helpers.runtime.run.sharing import GROUP, open_to_group, share_new_files
from helpers.runtime.run.status import Ending, State, record_attempt
from helpers.runtime.usage.peak_memory import peak_in_accounting, peak_on_this_node
from helpers.runtime.usage.report import say_usage

_UMASK = (
    "umask {0:04o}; export SLURM_UMASK={0:04o}\n"  # srun takes the variable, its value at submission, before the umask
)
_LEAST_URGENT = 19
_SBATCH_WITHIN_S = 120
_KILLED_AFTER_S = 120  # a requeued job's batch script is ended by Slurm within seconds


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    run = RunFolder(Path(os.environ[RUN_VARIABLE]))
    description = read_description(run) if run.description.exists() else begin_element(run)
    shared = ""
    if description.share == GROUP:
        open_to_group(run)
        shared = _UMASK.format(share_new_files())
    match arguments:
        case ["begin"]:
            print(shared, end="")
            return _begin(run, description)
        case ["provenance"]:
            from helpers.runtime.run.provenance import record_provenance  # slow to load, and `begin` is waited for

            os.nice(_LEAST_URGENT)  # the ranks start beside it
            record_provenance(run, description)
            return 0
        case ["end", exit_code]:
            return _end(run, description, int(exit_code))
        case ["setup-failed", exit_code, line]:
            return _fail_setup(run, int(exit_code), line)
    print(f"unknown command: {arguments}", file=sys.stderr)
    return 2


def _begin(run: RunFolder, description: Description) -> int:
    """Print the shell lines that the batch script evaluates: the attempt's number and end, or an exit."""
    job = _job_id()
    point_to_run(run, os.environ.get("SLURM_CLUSTER_NAME", description.cluster), job)
    nodes = os.environ.get("SLURM_JOB_NODELIST", platform.node())
    begun = waited_for(run, description, job) or attempt.begin(run, description, job_id=job, nodes=nodes)
    if isinstance(begun, Ending):
        print(f"[helpers] not run again: {begun.cause}: {begun.detail}", file=sys.stderr)
        print(f"exit {0 if begun.cause == 'returned' else 1}")
        return 0
    refusals = {"environment": _other_python(description), "raw_data": _wrong_raw_data(run, description)}
    for cause, words in refusals.items():
        if words:
            ending = Ending(cause=cause, node=platform.node(), exit_code=1, detail=words)
            attempt.finish(run, begun, job, attempt.Conclusion(state=State.FAILED, ending=ending, exit_code=1))
            print(f"[helpers] {words}", file=sys.stderr)
            print("exit 1")
            return 0
    print(f"{attempt.ATTEMPT_LINE}{begun}, job {job}, {time.strftime('%Y-%m-%d %H:%M:%S')}", file=sys.stderr)
    end = _end_time(run, description, job)
    place = "".join(f" {name}={value}" for name, value in meeting_point(description).items())
    print(f"export {ATTEMPT_VARIABLE}={begun} {END_TIME_VARIABLE}={'' if end is None else int(end)}{place}")
    return 0


def _other_python(description: Description) -> str:
    """Say that this is another Python than that of the submission; empty where the minor version is the same."""
    then, now = description.versions.get("python", ""), platform.python_version()
    if not then or then.split(".")[:2] == now.split(".")[:2]:
        return ""
    return f"{description.python} was Python {then} when this was submitted, and is Python {now} there"


def _wrong_raw_data(run: RunFolder, description: Description) -> str:
    """Say what is wrong with the raw data, where the settings refuse to run on that; empty where nothing is."""
    if description.raw_data.get("mode") != REFUSE:
        return ""  # the check runs beside the ranks, as a part of the provenance
    from helpers.runtime.raw_data.start import record_raw_data, why_refused

    return why_refused(record_raw_data(run, description.raw_data))


def _job_id() -> str:
    """Return Slurm's id; on this machine the id of the script's process, which stays the same when requeued."""
    return slurm.job_id() if "SLURM_JOB_ID" in os.environ else os.environ[LOCAL_ID_VARIABLE]


def _end_time(run: RunFolder, description: Description, job: str) -> float | None:
    """Return the end of this attempt, which is no later than that of all attempts together."""
    limit_min, left_s = description.time_min, total_time_left_s(run, description)
    if left_s is not None and limit_min is not None:
        limit_min = min(limit_min, math.ceil(left_s / 60))
    if "SLURM_JOB_ID" not in os.environ:
        return None if limit_min is None else time.time() + limit_min * 60
    if limit_min is not None and limit_min != description.time_min and not slurm.shorten(job, limit_min):
        print(f"[helpers] its limit could not be lowered to the {limit_min} min left of total_time", file=sys.stderr)
    return slurm.end_time(job)


def _end_by_now(job: str) -> float | None:
    """Return the end as the controller has it now: somebody may have changed the limit since the attempt began."""
    told = os.environ.get(END_TIME_VARIABLE)
    return slurm.end_time(job, told=float(told) if told else None)


def _unless_requeued(description: Description, conclusion: attempt.Conclusion, job: str) -> attempt.Conclusion:
    """Tell a lost node from a death in the job: Slurm ends ``srun`` before this shell, even with exit code 0."""
    if conclusion.ending.cause not in {"exited", "killed"} or description.requeue is False:
        return conclusion
    word = slurm.has_requeued(job)
    if word is None:
        return conclusion
    cause = "preempted" if word.startswith("PREEMPTED") else "node_fail"
    ending = Ending(cause=cause, detail=f"Slurm has requeued the job ({word})")
    return attempt.Conclusion(state=State.REQUEUED, ending=ending, exit_code=0)


def _with_peak(description: Description, conclusion: attempt.Conclusion, job: str) -> attempt.Conclusion:
    """Add how much memory a job used that had too little: its step's count is gone with it, the job's is still there.

    A node's own count serves for what happened on that node; of another one the accounting may know something.
    """
    ending = conclusion.ending
    if conclusion.state is not State.OUT_OF_MEMORY:
        return conclusion
    here = description.nodes == 1 or ending.node == os.environ.get("SLURMD_NODENAME")
    peak = (peak_on_this_node() if here else None) or peak_in_accounting(job)
    return replace(conclusion, ending=replace(ending, peak=peak))


def _end(run: RunFolder, description: Description, exit_code: int) -> int:
    job, number = slurm.job_id(), int(os.environ[ATTEMPT_VARIABLE])
    conclusion = attempt.conclude(run, description, number, exit_code=exit_code, end_time=_end_by_now(job))
    conclusion = _with_peak(description, conclusion, job)
    conclusion = _unless_requeued(description, conclusion, job)
    conclusion = within_total_time(run, description, conclusion)
    say_usage(run, description, number, conclusion)
    attempt.finish(run, number, job, conclusion)
    if conclusion.state is not State.REQUEUED:
        return conclusion.exit_code
    cause = conclusion.ending.cause
    print(f"[helpers] {cause}: {_what_is_saved(run, number, conclusion)}, asking for a requeue", file=sys.stderr)
    answer = slurm.requeue(job)
    if answer in {"requeued", "waits"}:
        time.sleep(_KILLED_AFTER_S)  # until Slurm ends this script; to end by itself would count as success
        return 0
    if answer == "ended":
        ending = Ending(cause="cancelled", detail="the checkpoint stays")
        cancelled = attempt.Conclusion(state=State.CANCELLED, ending=ending, exit_code=1, step=conclusion.step)
        attempt.finish(run, number, job, cancelled)
        return 1
    return _submit_successor(run, number, job)


def _what_is_saved(run: RunFolder, number: int, conclusion: attempt.Conclusion) -> str:
    step = newest_step(run) if conclusion.step is None else conclusion.step
    if step is not None:
        return f"saved at step {step}"
    return "no checkpoint yet" if has_started(run.attempt(number)) else "nothing had begun"


def _submit_successor(run: RunFolder, number: int, job: str) -> int:
    """Queue the same script again, under a new id, where Slurm does not requeue."""
    environment = without_scheduler_variables(os.environ)
    command = ["sbatch", "--parsable", f"--dependency=afterany:{job}", str(script_of(run))]
    array = array_of(run)
    if array is not None:  # as an array of one, which goes on with the element's log
        log = array.logs / run.batch_log.readlink().name if run.batch_log.is_symlink() else run.batch_log
        command[2:2] = ["--array=0", f"--output={str(log).replace('%', '%%')}"]
        environment["HELPERS_FIRST_ELEMENT"] = run.path.name
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_SBATCH_WITHIN_S, check=False
        )
        successor, words = slurm.read_job_id(done.stdout) if done.returncode == 0 else None, done.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        successor, words = None, str(error)
    if successor is None:
        ending = Ending(cause="preempted", detail=f"no requeue and no successor: {words}")
        attempt.finish(run, number, job, attempt.Conclusion(state=State.PREEMPTED, ending=ending, exit_code=1))
        return 1
    moved = slurm.move_dependents(job, successor)
    waiting = f"; moved to it: {', '.join(moved)}" if moved else ""
    print(f"[helpers] requeue refused: job {successor} goes on{waiting}", file=sys.stderr)
    job_id = successor if array is None else f"{successor}_0"
    record_attempt(run, event="queued", attempt=number + 1, job_id=job_id, step=None)
    return 0


def _fail_setup(run: RunFolder, exit_code: int, line: str) -> int:
    number = int(os.environ[ATTEMPT_VARIABLE])
    print(f"[helpers] this set-up line failed with exit code {exit_code}: {line}", file=sys.stderr)
    attempt.fail_setup(run, number, _job_id(), line=line, exit_code=exit_code)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
