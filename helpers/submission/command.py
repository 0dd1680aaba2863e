"""Submit a program: R, a shell script, torchrun, a binary."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import InvalidRequest
from helpers.submission.arguments import check_keywords
from helpers.submission.short_traceback import ShortTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.runtime.rank.command import Command
    from helpers.submission.jobs.job import Job

_BRING_ALONG = {"setup", "modules", "environment", "container"}  # each may have the program, on the node
_MODULES = {"Rscript": "R", "R": "R"}


def submit_command(command: Sequence[str | os.PathLike[str] | float], /, **keywords: Any) -> Job[int]:
    """Submit a program with its arguments as a job, and return at once.

    One process is started on each node, and sees all the GPUs that the job has there, unless ``processes`` says
    otherwise. No shell reads the words. The program gets SIGTERM and what else Slurm sends to the job; the warning
    before the time limit only where ``slurm={"signal": "USR1@120"}`` asks for it. With exit code 75 it asks to be
    run again in the same run folder, which is in ``$HELPERS_RUN``. A program or script that is the project's own
    runs as it was at submission, in the caller's working folder.

    Args:
        command: The program, found on ``PATH`` or by its path, and its arguments.
        **keywords: The keywords of :func:`helpers.submit` that are this library's.

    Returns:
        The job, a Future of 0: another exit code is a ``JobExited``, a signal a ``JobKilled``.

    Raises:
        InvalidRequest: If there is no such program, or a keyword breaks a rule; nothing is queued.
        Rejected: If Slurm refuses the job.
        ClusterUnreachable: If Slurm is configured here and does not answer.
    """
    from helpers.submission.resources.settings import complete_settings
    from helpers.submission.submit import Executor

    with ShortTraceback():
        check_keywords("submit_command", keywords, note="; the program's arguments stand in its list")
        program = make_command(command)
        if not _BRING_ALONG & set(complete_settings(keywords).values):
            check_program(program.words[0])
        return Executor(**keywords).submit(program)


def make_command(command: Any) -> Command:
    """Return the words of a command as they go to the system.

    Raises:
        InvalidRequest: If they are no list of words.
    """
    from helpers.runtime.rank.command import Command

    example = 'submit_command(["Rscript", "fit.R"])'
    if isinstance(command, str | bytes) or not hasattr(command, "__iter__"):
        hint = f"submit_command({command.split()})" if isinstance(command, str) and command.strip() else example
        raise InvalidRequest(f"A command is a list of words; got {command!r}.", hint=hint)
    words = []
    for word in command:
        if not isinstance(word, str | os.PathLike | int | float) or isinstance(word, bool):
            raise InvalidRequest(f"Each word of a command is text, a path or a number; got {word!r}.", hint=example)
        words.append(os.fspath(word) if isinstance(word, os.PathLike) else str(word))
    if not words or not words[0].strip():
        raise InvalidRequest("A command begins with a program; got none.", hint=example)
    if any("\0" in word for word in words):
        raise InvalidRequest("No word of a command can hold the character NUL.", hint=example)
    return Command(words)


def check_program(name: str) -> None:
    """Refuse a program that this machine has not, before a job waits hours to say so.

    Raises:
        InvalidRequest: With what would bring it along, if it is not found or cannot be executed.
    """
    if shutil.which(name) is not None:
        return
    path = Path(name)
    if "/" in name and path.is_file():
        raise InvalidRequest(f"{name} is not executable.", hint=f"chmod +x {name}, or name what runs it first")
    if "/" not in name and path.is_file():
        raise InvalidRequest(f"There is no program {name!r} on PATH.", hint=f"./{name}, or name what runs it first")
    where, module = "" if "/" in name else " on PATH", _MODULES.get(path.name, path.name)
    raise InvalidRequest(
        f"There is no program {name!r}{where}.",
        hint=f'its path; or, where a module brings it along: setup=["module load {module}"]',
    )
