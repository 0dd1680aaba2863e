"""Print errors for people, and say which exit code each has."""

from __future__ import annotations

import sys

from helpers.errors import ClusterUnreachable, HelpersError, InvalidRequest, JobError, Rejected

JOB_FAILED = 1
INTERRUPTED = 130  # as a shell gives a process that Ctrl-C ended
_EXIT_CODES: dict[type[HelpersError], int] = {InvalidRequest: 2, Rejected: 3, ClusterUnreachable: 4}

EXIT_CODES = """\b
Exit codes:
  0    done; with --wait, --follow or logs -f: the job succeeded
  1    the job that was waited for did not succeed
  2    the request breaks a rule; nothing was queued
  3    Slurm refused the job
  4    Slurm is configured here and does not answer
  130  Ctrl-C; a job that was queued goes on
"""
"""For the end of ``--help``."""


def exit_code_of(error: HelpersError) -> int:
    """Return what the command ends with after this error."""
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), JOB_FAILED)


def note(text: str) -> None:
    """Say something about the job that is not the answer: on stderr, so that stdout can be piped."""
    print(f"helpers: {text}", file=sys.stderr, flush=True)


def show_error(error: HelpersError) -> None:
    """Print ``error: …`` and ``hint: …``, in the words of a shell, on stderr; no traceback of this library."""
    from helpers.cli.values import options_instead_of_keywords

    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {options_instead_of_keywords(error.hint)}", file=sys.stderr)
    if isinstance(error, JobError):
        print("\n".join(error.facts.lines()), file=sys.stderr)
    sys.stderr.flush()
