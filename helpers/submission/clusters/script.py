"""Write what the batch script does: begin an attempt, set up, start the ranks, end the attempt."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.mpi.rank import MPIRUN
from helpers.runtime.run.element import ELEMENTS
from helpers.runtime.stop import STOP_SIGNALS
from helpers.submission.surroundings import rank_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from helpers.runtime.run.folder import RunFolder
    from helpers.submission.resources.resources import Resources
    from helpers.submission.surroundings import Surroundings

_SLURM_ELEMENT = "$((SLURM_ARRAY_TASK_ID + ${HELPERS_FIRST_ELEMENT:-0}))"
_SLURM_LOG = [
    'log="$HELPERS_RUN/logs/batch.log"  # of a job that goes on with this run it is the output already',
    '[ "$log" -ef /dev/stdout ] || ln -sfn "../../../logs/${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID.log" "$log"',
]
_LOCAL_LOG = ['exec >>"$HELPERS_RUN/logs/batch.log" 2>&1']
_OWN_SCRIPT = '"$HELPERS_RUN/submission.sh"'
_BATCH = "-P -m helpers.runtime.attempt.batch"  # -P: a helpers.py in the working folder is not ours
_HELD_BACK = ",".join(number.name.removeprefix("SIG") for number in STOP_SIGNALS)
_RANKS = (
    "# the ranks: Python directly under srun, so that it is Python that gets the signals, and not before it listens"
)
_MPI_RANKS = "# the ranks, by mpirun: on each node one process that starts Open MPI's daemon and passes signals on"
_HOLD = f"hold='env --block-signal={_HELD_BACK}'; $hold true 2>/dev/null || hold=  # coreutils 8.31 and newer"


def slurm_script(
    run: RunFolder, resources: Resources, *, surroundings: Surroundings, setup: Sequence[str], is_array: bool = False
) -> str:
    """Return the lines that a Slurm job, or each element of an array, runs in its batch shell."""
    srun = _srun(resources, surroundings)
    rank = surroundings.rank_words(rank_module(is_command=resources.is_command))
    hold = "" if surroundings.srun_options else "$hold "  # the image's own env may know no signals
    logs = shlex.quote(log_path(run.logs)) + '/"$HELPERS_ATTEMPT"'
    if is_array:
        logs = f'{shlex.quote(log_path(run.path / ELEMENTS))}/"$element/logs/$HELPERS_ATTEMPT"'
    return "\n".join(
        [
            *_opening(run, surroundings, term=":", element=_SLURM_ELEMENT if is_array else None),
            *_setup(setup, shlex.quote(str(run.script)) if is_array else _OWN_SCRIPT),
            "_helpers provenance & provenance=$!",
            "",
            *_ranks(srun, rank, logs, hold, surroundings),
            "code=$?",
            "wait $provenance  # and for nothing that the set-up has left running",
            "_helpers end $code  # decides whether the job is requeued",
        ]
    )


def _srun(resources: Resources, surroundings: Surroundings) -> list[str]:
    """Return the words before the rank's; by ``mpirun`` one process a node starts all the ranks there."""
    by_mpirun = surroundings.mpi == MPIRUN
    share = resources.processes_per_node if by_mpirun else 1
    return [
        "srun",
        f"--ntasks={resources.nodes if by_mpirun else resources.processes}",
        *(["--ntasks-per-node=1"] if by_mpirun else []),
        *([f"--cpus-per-task={resources.cpus * share}"] if resources.cpus else []),
        "--kill-on-bad-exit=1",
        "--unbuffered",
        "--export=ALL",
        *([f"--mpi={surroundings.mpi}"] if surroundings.mpi and not by_mpirun else []),
        *surroundings.srun_options,
    ]


def _ranks(srun: list[str], rank: list[str], logs: str, hold: str, surroundings: Surroundings) -> list[str]:
    if surroundings.mpi == MPIRUN:
        node = [surroundings.python, "-u", "-P", "-m", "helpers.runtime.mpi.node"]
        return [_MPI_RANKS, _HOLD, f"{shlex.join(srun)} \\", f"  {hold}{shlex.join(node)}"]
    return [
        _RANKS,
        _HOLD,
        f"{shlex.join(srun)} \\",
        f"  --output={logs}/%t.out --error={logs}/%t.err \\",
        f"  {hold}{shlex.join(rank)}",
    ]


def log_path(path: Path) -> str:
    """Return a log's path so that Slurm, which reads ``%j`` and the like in it, takes it as it stands.

    Raises:
        InvalidRequest: For a backslash, which turns off also the patterns that tell the ranks' logs apart; and for
            what :func:`check_path` refuses.
    """
    check_path(path)
    if _MANGLED.search(str(path)):
        raise InvalidRequest(
            f"Slurm's srun takes percent signs in {str(path)!r} for patterns, even doubled: the logs would be lost.",
            hint="take the percent signs out of the name, or set HELPERS_RUNS=/path/to/runs",
        )
    return str(path).replace("%", "%%")


_MANGLED = re.compile(r"%[^utnN].*%[utnN]|%\d+[utnN]|%%%")
"""What srun makes something else of although each percent sign is doubled (tried with every pair, Slurm 22.05)."""


def check_path(path: Path) -> None:
    """Refuse a folder whose name no line of the batch script can hold.

    Raises:
        InvalidRequest: For a backslash, which Slurm takes for a quote of its own; for a line break or another
            control character, which could add a line; and for bytes that are no text.
    """
    if "\\" in str(path) or not str(path).isprintable():
        raise InvalidRequest(
            "Slurm cannot work in a folder with a backslash, a line break or another control character in its name: "
            f"{str(path)!r}",
            hint="submit from another folder, or set HELPERS_RUNS=/path/to/runs",
        )


def local_script(run: RunFolder, *, surroundings: Surroundings, setup: Sequence[str], is_array: bool = False) -> str:
    """Return the whole script of a run, or of each element of an array, on this machine."""
    return "\n".join(
        [
            "#!/bin/bash",
            *([] if is_array else ["export HELPERS_LOCAL_ID=local-$$"]),
            *_opening(run, surroundings, term="''", element='"$HELPERS_ELEMENT"' if is_array else None),
            *_setup(setup, shlex.quote(str(run.script)) if is_array else _OWN_SCRIPT),
            "_helpers provenance &",
            "",
            "# the ranks, started and watched by one supervisor in this very process",
            f"exec {shlex.quote(surroundings.python)} -P -m helpers.runtime.local.ranks",
            "",
        ]
    )


def _opening(run: RunFolder, surroundings: Surroundings, *, term: str, element: str | None = None) -> list[str]:
    python = surroundings.python
    return [
        "# the ranks are told to stop; this shell waits for them",
        f"trap {term} TERM",
        *_which_run(run, element),
        *surroundings.lines,
        *_python_path(),
        f'_helpers() {{ {shlex.quote(python)} {_BATCH} "$@"; }}',
        *_cannot_begin(python, surroundings.version),
        'begun=$(_helpers begin) || _cannot_begin $?; eval "$begun"',
        "",
    ]


def _cannot_begin(python: str, full_version: str) -> list[str]:
    """Leave a word in the shell where the interpreter cannot: it is gone, it is another one, or it has lost us.

    Nothing of this runs, nor costs, where the attempt begins as it should.
    """
    version = ".".join(full_version.split(".")[:2])
    path = json.dumps(python, ensure_ascii=False)[1:-1]
    gone = f"{path}, the interpreter of this job, does not exist there"
    other = f"{path} was Python {version} when this was submitted, and is Python $found there"
    lost = f"{path} cannot import helpers there"
    ending = '"ending":{"cause":"environment","rank":null,"node":"%s","exit_code":%d,"signal":null,"detail":"%s"}'
    status = '{"state":"FAILED","job_id":"%s","attempt":%d,' + ending + ',"updated":%s.0}\\n'
    end = '{"time":%s.0,"event":"end","attempt":%d,"job_id":"%s","state":"FAILED","cause":"environment","step":null}\\n'
    find = shlex.join([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    import_us = shlex.join([python, "-P", "-c", "import helpers.runtime.attempt.batch"])
    return [
        "_cannot_begin() {  # the interpreter cannot say so itself",
        f"  if [ ! -x {shlex.quote(python)} ]; then why={shlex.quote(gone)}",
        f'  elif found=$({find} | tr -cd 0-9.); [ "$found" != {version} ]; then why={_with_found(other)}',
        f"  elif ! {import_us}; then why={shlex.quote(lost)}",
        "  else exit $1; fi",
        '  cd "$HELPERS_RUN" && ! grep -qs COMPLETED status.json || exit $1',
        "  job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}; now=$(date +%s)",
        "  job=${job:-${SLURM_JOB_ID:-$HELPERS_LOCAL_ID}}; number=$(ls attempts 2>/dev/null | wc -l)",
        f'  printf {shlex.quote(end)} $now $number "$job" >>jobs.jsonl',
        f'  printf {shlex.quote(status)} "$job" $number "$(uname -n)" $1 "$why" $now >.status.tmp',
        '  mv .status.tmp status.json; echo "[helpers] $why" >&2; exit $1',
        "}",
    ]


def _with_found(text: str) -> str:
    before, after = text.split("$found")
    return f'{shlex.quote(before)}"${{found:-unknown}}"{shlex.quote(after)}'


def _which_run(run: RunFolder, element: str | None) -> list[str]:
    """Say which folder is this job's; an element of an array takes its number from what started it."""
    if element is None:
        return [f"export HELPERS_RUN={shlex.quote(str(run.path))}"]
    return [
        f"element={element}",
        f"export HELPERS_RUN={shlex.quote(str(run.path / ELEMENTS))}/$element",
        'mkdir -p "$HELPERS_RUN/logs"',
        *(_SLURM_LOG if element == _SLURM_ELEMENT else _LOCAL_LOG),
    ]


def _python_path() -> list[str]:
    folder = library_folder()
    return [] if folder is None else [f"export PYTHONPATH={shlex.quote(folder)}${{PYTHONPATH:+:$PYTHONPATH}}"]


@functools.cache
def library_folder() -> str | None:
    """Return the folder that makes this library importable where it is not installed but found through a path."""
    import helpers

    parent = Path(helpers.__file__).parent.parent
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return None if parent in installed or _is_installed() else str(parent)


def with_library(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which another Python finds this library, as the batch script makes it."""
    folder = library_folder()
    if folder is None:
        return dict(environment)
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, [folder, environment.get("PYTHONPATH", "")]))}


def _is_installed() -> bool:
    """Say whether this Python has the library's distribution, be it in editable mode."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution("slurm-torch-helpers")
    except PackageNotFoundError:
        return False
    return True


def _setup(lines: Sequence[str], script: str) -> list[str]:
    """Run the caller's lines in this shell, and stop at the first that fails, naming it."""
    if not lines:
        return []
    return [
        "# set-up: the first line that fails, or leaves, ends the job",
        'setup_line() { sed -n "${BASH_LINENO[${#BASH_LINENO[@]} - 2]}p" ' + script + "; }",
        'setup_failed() { trap - ERR EXIT; _helpers setup-failed "$1" "${2:-$(setup_line)}"; exit 1; }',
        "trap 'setup_failed $?' ERR; trap 'setup_failed $? \"$BASH_COMMAND\"' EXIT",
        *lines,
        "trap - ERR EXIT; set +eu; set +o pipefail  # what a line has set holds for the lines only",
        "",
    ]
