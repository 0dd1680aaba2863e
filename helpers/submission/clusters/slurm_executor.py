"""Queue a run through submitit's Slurm executor; the only file that knows submitit's private names.

submitit converts the parameters and writes the sbatch text. Ours: the script's body (see ``script.py``), a run
folder that is complete before ``sbatch``, no fixed pause, and an id that is read from ``--parsable``.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submitit import SlurmExecutor
from submitit.slurm.slurm import _make_sbatch_string

from helpers.config import working_directory
from helpers.errors import ClusterUnreachable, Rejected
from helpers.runtime.attempt.slurm import read_job_id
from helpers.runtime.environment import without_scheduler_variables
from helpers.submission.clusters import slurm_queue
from helpers.submission.clusters.script import check_path, log_path
from helpers.submission.clusters.slurm_program import run_slurm, silence

if TYPE_CHECKING:
    from collections.abc import Collection
    from subprocess import CompletedProcess

    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.resources.resources import Resources

_SBATCH_WITHIN_S = 120
_BUSY = ("Socket timed out", "Resource temporarily unavailable", "Unable to contact slurm controller")
_BUSY_DELAYS_S = (0.5, 1, 2, 4)


class RunExecutor(SlurmExecutor):
    """Submitit's executor for one run folder.

    Args:
        run: The run's files.
        resources: What the job asks for.
        name: Of the job, as the queue shows it.
        requeue: Whether Slurm may requeue the job.
        is_array: Whether the script is that of each element of an array, with a log for each.
    """

    def __init__(
        self, run: RunFolder, resources: Resources, *, name: str, requeue: bool, is_array: bool = False
    ) -> None:
        super().__init__(folder=run.path)
        self.run = run
        self._removed = [name for name, value in resources.slurm.items() if value is None]
        generic: dict[str, Any] = {
            "name": name,
            "timeout_min": resources.time_min,
            "nodes": resources.nodes,
            "tasks_per_node": resources.processes_per_node,
            "cpus_per_task": resources.cpus,
            "gpus_per_node": resources.gpus.per_node(resources.nodes) if resources.gpus.count else None,
        }
        if resources.mem_mb is not None:
            generic["mem_gb"] = resources.mem_mb / 1024
        self.parameters.update(  # update_parameters would write the script once more, to see whether it can be
            **self._convert_parameters(generic),
            partition=resources.partition,
            account=resources.account,
            qos=resources.qos,
            signal_delay_s=resources.warning_s,
            stderr_to_stdout=True,
            wckey=None,
            use_srun=False,
            additional_parameters=_other_options(run, resources, requeue=requeue, is_array=is_array),
        )

    @classmethod
    def affinity(cls) -> int:
        """Say that this executor may be made anywhere: a dry run needs no Slurm."""
        return 2

    def script_text(self, body: str) -> str:
        """Return the whole batch script."""
        text: str = _make_sbatch_string(command=body, folder=self.folder, **self.parameters)
        removed = tuple(f"#SBATCH --{name}=" for name in self._removed)  # what submitit writes whatever one says
        return "\n".join(line for line in text.split("\n") if not line.startswith(removed))

    def queue(self, *options: str, known: Collection[str] = (), **variables: str) -> str:
        """Hand the script to ``sbatch`` and return the job's id.

        Args:
            *options: For this submission only, such as ``--dependency=afterok:4711``: a successor has none.
            known: Ids under which the script has been queued before.
            **variables: For the job's environment.

        Raises:
            Rejected: With Slurm's own sentence.
            ClusterUnreachable: If the controller does not answer.
        """
        program, script = self._make_submission_command(self.run.script)
        return queue_script([program], Path(script), *options, known=known, **variables)


def queue_script(
    program: list[str], script: Path, *options: str, known: Collection[str] | None = (), **variables: str
) -> str:
    """Hand a script to ``sbatch`` and return the job's id; see :meth:`RunExecutor.queue`.

    Where the answer is lost, the job is looked for by its script; not with ``known=None``, which is for a script that
    other jobs may be queued with at the same time.
    """
    command = [*program, "--parsable", *options, str(script)]
    for delay in (*_BUSY_DELAYS_S, None):
        done = _call_sbatch(command, script=script.read_text(encoding="utf-8"), variables=variables)
        if done.returncode == 0:
            return _id_in(done.stdout)
        busy = any(text in done.stderr for text in _BUSY)
        if not busy:
            break
        time.sleep(delay or 0)
        already = None if known is None else slurm_queue.find_by_script(str(script), besides=known)
        if already is not None:  # the answer was lost, not the job
            return already
    raise _refusal(done.stderr, busy=busy)


def estimate_start(script: str) -> str:
    """Ask Slurm when a script's job would start, if it were queued now; nothing is queued.

    Returns:
        Its answer in a sentence; or that it would refuse the job, and why.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as file:
        file.write(script)
        file.flush()
        done = _call_sbatch(["sbatch", "--test-only", file.name], script=script, variables={})
    said = re.search(r"to start at (\S+) .*?on nodes? (\S+)", done.stderr)
    if said is not None:
        return f"queued now, it would start at {said[1]} on {said[2]}, by Slurm's estimate"
    return f"Slurm would refuse it: {_sentence(done.stderr)}"


_OVERRIDING = {
    "account": "ACCOUNT", "constraint": "CONSTRAINT", "cpus-per-gpu": "CPUS_PER_GPU", "exclusive": "EXCLUSIVE",
    "gpus-per-node": "GPUS GPUS_PER_NODE GPUS_PER_TASK GPUS_PER_SOCKET GRES", "gres": "GRES GPUS GPUS_PER_NODE",
    "job-name": "JOB_NAME", "mem": "MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU", "partition": "PARTITION", "qos": "QOS",
    "reservation": "RESERVATION", "time": "TIMELIMIT",
}  # fmt: skip
_NEVER_INHERITED = (
    "ARRAY_INX", "ERROR", "IGNORE_PBS", "INPUT", "NO_REQUEUE", "OPEN_MODE", "OUTPUT", "REQUEUE", "SIGNAL", "WAIT",
)  # fmt: skip


def _without_overriding(environment: dict[str, str], script: str) -> dict[str, str]:
    """Return the environment without the ``SBATCH_…`` that would win over what the script asks for.

    To sbatch a variable counts more than a line of the script; here the call is the last word.
    """
    asked = set(re.findall(r"^#SBATCH --([a-z-]+)", script, flags=re.MULTILINE))
    words = [*_NEVER_INHERITED, *(word for option in asked for word in _OVERRIDING.get(option, "").split())]
    dropped = {f"SBATCH_{word}" for word in words}
    return {name: value for name, value in environment.items() if name not in dropped}


def _other_options(run: RunFolder, resources: Resources, *, requeue: bool, is_array: bool) -> dict[str, Any]:
    here = working_directory()
    check_path(here)
    options = {
        "output": f"{log_path(run.logs)}/%A_%a.log" if is_array else log_path(run.batch_log),
        "chdir": str(here),
        "requeue" if requeue else "no-requeue": True,
        "kill-on-invalid-dep": "yes",
        **resources.slurm,
    }
    return {name: value for name, value in options.items() if value is not None and value is not False}


def _call_sbatch(command: list[str], *, script: str, variables: dict[str, str]) -> CompletedProcess[str]:
    environment = _without_overriding(without_scheduler_variables(os.environ), script)
    return run_slurm(command, environment | {"SBATCH_EXPORT": "ALL", **variables}, within_s=_SBATCH_WITHIN_S)


def _id_in(printed: str) -> str:
    job_id = read_job_id(printed)
    if job_id is None:
        raise Rejected(f"sbatch succeeded, and no job id is in what it printed: {printed!r}.", hint="squeue --me")
    return job_id


def _refusal(words: str, *, busy: bool) -> Rejected | ClusterUnreachable:
    sentence = _sentence(words)
    if busy:
        return silence("sbatch", sentence)
    return Rejected(f"Slurm refused the job: {sentence}", hint="submit(…, dry_run=True) shows the script")


def _sentence(words: str) -> str:
    """Return what sbatch says on stderr in one line."""
    return "; ".join(line.removeprefix("sbatch: ").removeprefix("error: ") for line in words.splitlines() if line)
