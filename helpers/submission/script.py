"""Write what the batch script does: begin an attempt, set up, start the ranks, end the attempt."""

from __future__ import annotations

import functools
import shlex
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.runtime.run_folder import RunFolder
    from helpers.submission.resources import Resources

_BATCH = "-P -m helpers.runtime.batch"  # -P: a helpers.py in the working folder is not ours
_RANK = "-u -P -m helpers.runtime.rank"


def slurm_script(run: RunFolder, resources: Resources, *, python: str, setup: Sequence[str]) -> str:
    """Return the lines that a Slurm job runs in its batch shell."""
    srun = [
        "srun",
        f"--ntasks={resources.processes}",
        *([f"--cpus-per-task={resources.cpus}"] if resources.cpus else []),
        "--kill-on-bad-exit=1",
        "--unbuffered",
        "--export=ALL",
    ]
    logs = shlex.quote(log_path(run.logs)) + '/"$HELPERS_ATTEMPT"'
    return "\n".join(
        [
            *_opening(run, python, term=":"),
            *_setup(setup),
            "_helpers provenance &",
            "",
            "# the ranks: Python directly under srun, so that it is Python that gets the signals",
            f"{shlex.join(srun)} \\",
            f"  --output={logs}/%t.out --error={logs}/%t.err \\",
            f"  {shlex.quote(python)} {_RANK}",
            "code=$?",
            "wait",
            "_helpers end $code  # decides whether the job is requeued",
        ]
    )


def log_path(path: Path) -> str:
    """Return a log's path so that Slurm, which reads ``%j`` and the like in it, takes it as it stands.

    Raises:
        InvalidRequest: For a backslash, which turns off also the patterns that tell the ranks' logs apart.
    """
    if "\\" in str(path):
        raise InvalidRequest(
            f"Slurm cannot write logs into a folder with a backslash in its name: {path}",
            hint="submit from another folder, or set HELPERS_RUNS=/path/to/runs",
        )
    return str(path).replace("%", "%%")


def local_script(run: RunFolder, *, python: str, setup: Sequence[str]) -> str:
    """Return the whole script of a run on this machine."""
    return "\n".join(
        [
            "#!/bin/bash",
            "export HELPERS_LOCAL_ID=local-$$",
            *_opening(run, python, term="''"),
            *_setup(setup),
            "_helpers provenance &",
            "",
            "# the ranks, started and watched by one supervisor in this very process",
            f"exec {shlex.quote(python)} -P -m helpers.runtime.local",
            "",
        ]
    )


def _opening(run: RunFolder, python: str, *, term: str) -> list[str]:
    return [
        "# the ranks are told to stop; this shell waits for them",
        f"trap {term} TERM",
        f"export HELPERS_RUN={shlex.quote(str(run.path))}",
        *_python_path(),
        f'_helpers() {{ {shlex.quote(python)} {_BATCH} "$@"; }}',
        'begun=$(_helpers begin) || exit; eval "$begun"',
        "",
    ]


@functools.cache
def _python_path() -> list[str]:
    """Make this library importable where it is not installed but found through the caller's path."""
    import helpers

    parent = Path(helpers.__file__).parent.parent
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    if parent in installed or _is_editable():
        return []
    return [f"export PYTHONPATH={shlex.quote(str(parent))}${{PYTHONPATH:+:$PYTHONPATH}}"]


def _is_editable() -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution("slurm-torch-helpers")
    except PackageNotFoundError:
        return False
    return True


def _setup(lines: Sequence[str]) -> list[str]:
    """Run the caller's lines in this shell, and stop at the first that fails, naming it."""
    if not lines:
        return []
    return [
        "# set-up: the first line that fails, or leaves, ends the job",
        'setup_line() { sed -n "${BASH_LINENO[${#BASH_LINENO[@]} - 2]}p" "$HELPERS_RUN/submission.sh"; }',
        'setup_failed() { trap - ERR EXIT; _helpers setup-failed "$1" "${2:-$(setup_line)}"; exit 1; }',
        "trap 'setup_failed $?' ERR; trap 'setup_failed $? \"$BASH_COMMAND\"' EXIT",
        *lines,
        "trap - ERR EXIT; set +eu; set +o pipefail  # what a line has set holds for the lines only",
        "",
    ]
