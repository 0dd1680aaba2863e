"""What the batch script calls before and after ``srun``: ``python -m helpers.runtime.batch begin|end|setup-failed``.

It runs in the batch shell, never inside a container, so it can ask the scheduler for a requeue wherever the
ranks themselves run.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from helpers.runtime import attempt, slurm
from helpers.runtime.current import ATTEMPT_VARIABLE, END_TIME_VARIABLE, LOCAL_ID_VARIABLE, RUN_VARIABLE
from helpers.runtime.dependencies import waited_for
from helpers.runtime.description import Description, read_description
from helpers.runtime.element import array_of, begin_element, script_of
from helpers.runtime.environment import without_scheduler_variables
from helpers.runtime.pointer import point_to_run
from helpers.runtime.provenance import record_provenance
from helpers.runtime.run_folder import RunFolder
from helpers.runtime.sharing import GROUP, open_to_group, share_new_files
from helpers.runtime.status import Ending, State, record_attempt
from helpers.runtime.total_time import within_total_time

_UMASK = (
    "umask {0:04o}; export SLURM_UMASK={0:04o}\n"  # srun takes the variable, its value at submission, before the umask
)
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
    other = _other_python(description)
    if other:
        ending = Ending(cause="environment", node=platform.node(), exit_code=1, detail=other)
        attempt.finish(run, begun, job, attempt.Conclusion(state=State.FAILED, ending=ending, exit_code=1))
        print(f"[helpers] {other}", file=sys.stderr)
        print("exit 1")
        return 0
    print(f"{attempt.ATTEMPT_LINE}{begun}, job {job}, {time.strftime('%Y-%m-%d %H:%M:%S')}", file=sys.stderr)
    end = _end_time(description, job)
    print(f"export {ATTEMPT_VARIABLE}={begun} {END_TIME_VARIABLE}={'' if end is None else int(end)}")
    return 0


def _other_python(description: Description) -> str:
    """Say that this is another Python than that of the submission; empty where the minor version is the same."""
    then, now = description.versions.get("python", ""), platform.python_version()
    if not then or then.split(".")[:2] == now.split(".")[:2]:
        return ""
    return f"{description.python} was Python {then} when this was submitted, and is Python {now} there"


def _job_id() -> str:
    """Return Slurm's id; on this machine the id of the script's process, which stays the same when requeued."""
    return slurm.job_id() if "SLURM_JOB_ID" in os.environ else os.environ[LOCAL_ID_VARIABLE]


def _end_time(description: Description, job: str) -> float | None:
    if "SLURM_JOB_ID" in os.environ:
        return slurm.end_time(job)
    return None if description.time_min is None else time.time() + description.time_min * 60


def _latest_end(now: float | None) -> float | None:
    """Return the later of the ends that Slurm has told: it moves a job's end to that of the grace to preempt it."""
    told = os.environ.get(END_TIME_VARIABLE)
    ends = [end for end in (now, float(told) if told else None) if end is not None]
    return max(ends, default=None)


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


def _end(run: RunFolder, description: Description, exit_code: int) -> int:
    job, number = slurm.job_id(), int(os.environ[ATTEMPT_VARIABLE])
    end = _latest_end(slurm.end_time(job))
    conclusion = attempt.conclude(run, description, number, exit_code=exit_code, end_time=end)
    conclusion = _unless_requeued(description, conclusion, job)
    conclusion = within_total_time(run, description, conclusion)
    attempt.finish(run, number, job, conclusion)
    if conclusion.state is not State.REQUEUED:
        return conclusion.exit_code
    cause = conclusion.ending.cause
    saved = "nothing had begun" if conclusion.step is None else f"saved at step {conclusion.step}"
    print(f"[helpers] {cause}: {saved}, asking for a requeue", file=sys.stderr)
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


def _submit_successor(run: RunFolder, number: int, job: str) -> int:
    """Queue the same script again, under a new id, where Slurm does not requeue."""
    environment = without_scheduler_variables(os.environ)
    command = ["sbatch", "--parsable", f"--dependency=afterany:{job}", str(script_of(run))]
    if array_of(run) is not None:
        command.insert(2, "--array=0")
        environment["HELPERS_FIRST_ELEMENT"] = run.path.name
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    successor = slurm.read_job_id(done.stdout)
    if done.returncode != 0 or successor is None:
        ending = Ending(cause="preempted", detail=f"no requeue and no successor: {done.stderr.strip()}")
        attempt.finish(run, number, job, attempt.Conclusion(state=State.PREEMPTED, ending=ending, exit_code=1))
        return 1
    moved = slurm.move_dependents(job, successor)
    waiting = f"; moved to it: {', '.join(moved)}" if moved else ""
    print(f"[helpers] requeue refused: job {successor} goes on{waiting}", file=sys.stderr)
    record_attempt(run, event="queued", attempt=number + 1, job_id=successor, step=None)
    return 0


def _fail_setup(run: RunFolder, exit_code: int, line: str) -> int:
    number = int(os.environ[ATTEMPT_VARIABLE])
    print(f"[helpers] this set-up line failed with exit code {exit_code}: {line}", file=sys.stderr)
    attempt.fail_setup(run, number, _job_id(), line=line, exit_code=exit_code)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
