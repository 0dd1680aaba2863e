"""Complete a JOB with the ids of this project's newest runs."""

from __future__ import annotations

_OFFERED = 50


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that begin so, newest first, each with the run's name and state; an error offers nothing."""
    import contextlib
    from pathlib import Path

    from helpers.errors import HelpersError
    from helpers.runtime.run.description import read_description
    from helpers.runtime.run.folder import RunFolder
    from helpers.runtime.run.status import read_ledger, read_status
    from helpers.submission.jobs.attach import all_runs

    offered: list[tuple[str, str]] = []
    with contextlib.suppress(HelpersError, OSError):
        for folder in all_runs(Path.cwd())[: -_OFFERED - 1 : -1]:
            run = RunFolder(folder)
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, IndexError):
                job_id, status = read_ledger(run)[-1]["job_id"], read_status(run)
                if job_id.startswith(incomplete):
                    offered.append((job_id, f"{read_description(run).name} {status.state if status else 'PENDING'}"))
    return offered
