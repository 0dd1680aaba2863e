"""Run one of Slurm's programs for a bounded time: a controller may take a question and never answer it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

LOOK = "sinfo"
"""What shows whether the controller answers."""

MISSING = 'module load slurm; or, to run on this machine on purpose: cluster="local"'
"""What to do where its programs are not on PATH."""

_ANSWERS_WITHIN_S = 60
_CHUNK = 65536
_MOMENT_S = 1e-4  # between the last word of a program and its end


def run_slurm(
    command: Sequence[str], environment: Mapping[str, str], *, within_s: float | None = None, hint: str = LOOK
) -> subprocess.CompletedProcess[str]:
    """Run a program and return what it prints, whatever its exit code.

    ``subprocess.run`` with a timeout sleeps for a millisecond at the end, a quarter of what ``sbatch`` takes.

    Args:
        command: The program and its words.
        environment: Its variables.
        within_s: How long it may take; None for as long as a question may.
        hint: What to do where it is not answered.

    Raises:
        ClusterUnreachable: If there is no such program, the configuration is missing, or it takes longer.
    """
    check_configuration(environment.get("SLURM_CONF"))
    bound_s = _ANSWERS_WITHIN_S if within_s is None else within_s
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError as error:
        raise ClusterUnreachable(f"There is no {command[0]} on PATH.", hint=MISSING) from error
    except OSError as error:
        raise silence(command[0], error.strerror or str(error), hint=hint) from error
    with process:
        try:
            printed, errors = _read(process, time.monotonic() + bound_s)
        except TimeoutError as error:
            process.kill()
            raise silence(command[0], f"no answer within {bound_s:g} s", hint=hint) from error
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


def check_configuration(named: str | None) -> None:
    """Refuse a configuration that is gone: Slurm's programs would look for it for a minute, without a word.

    Raises:
        ClusterUnreachable: If ``$SLURM_CONF`` names a file, and there is none.
    """
    if named and not Path(named).exists():
        raise ClusterUnreachable(
            f"SLURM_CONF names {named}, and there is no such file.",
            hint='unset SLURM_CONF; or, to run on this machine on purpose: cluster="local"',
        )


def silence(program: str, words: str, *, hint: str = LOOK) -> ClusterUnreachable:
    """Return the error for a Slurm that does not answer: the words of its program, or ours."""
    said = "; ".join(line.strip() for line in words.strip().splitlines()).removesuffix(".")
    return ClusterUnreachable(f"Slurm is configured here and does not answer: {program}: {said}.", hint=hint)


def _read(process: subprocess.Popen[bytes], until: float) -> tuple[str, str]:
    """Return what a process prints on stdout and stderr, once it has ended.

    Raises:
        TimeoutError: If it has not by ``until``, in the seconds of ``time.monotonic``.
    """
    if process.stdout is None or process.stderr is None:
        raise AssertionError("both are pipes")
    parts: dict[IO[bytes], list[bytes]] = {process.stdout: [], process.stderr: []}
    with selectors.PollSelector() as open_pipes:
        for pipe, part in parts.items():
            open_pipes.register(pipe, selectors.EVENT_READ, part)
        while open_pipes.get_map():
            for key, _ in open_pipes.select(_left_s(until)):
                data = os.read(key.fd, _CHUNK)
                if data:
                    key.data.append(data)
                else:
                    open_pipes.unregister(key.fileobj)
    pause_s = _MOMENT_S
    while process.poll() is None:
        time.sleep(min(pause_s, _left_s(until)))
        pause_s *= 2
    printed, errors = (b"".join(part).decode(errors="replace") for part in parts.values())
    return printed, errors


def _left_s(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
