"""Submit a function: the two ways to call it, and what they do with the plan.

The rest of the library loads at the first submission, not at import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from helpers.errors import ClusterUnreachable, InvalidRequest, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.submission.clusters import Cluster
    from helpers.submission.job import Job
    from helpers.submission.plan import Plan

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Preview:
    """What a submission would do (``dry_run=True``).

    Args:
        script: The batch script.
        sentence: What would be asked for, in one line.
    """

    script: str
    sentence: str

    def __str__(self) -> str:
        return self.script


def submit(function: Callable[..., R], /, *args: Any, **keywords: Any) -> Job[R]:
    """Submit ``function(*args, **keywords)`` as a job and return at once.

    Args:
        function: What each rank calls; it runs unchanged on CPU, one GPU or many.
        *args: Its arguments.
        **keywords: Its keyword arguments, and these, which are this library's:
            ``gpus`` in all: ``4``, ``"a100:4"``, or a MIG slice ``"2g.10gb:1"``;
            ``nodes``; ``processes`` in all (one per GPU, unless given); ``cpus`` per process;
            ``mem`` per node: ``"64G"``; ``time``: ``"8h"``, ``"30min"``, ``"1-00:00:00"``, or minutes;
            ``partition``, ``account``, ``qos``; ``name`` of the run; ``setup``: shell lines before the ranks;
            ``requeue``: ``"auto"``, True or False; ``slurm``: any sbatch option by its long name;
            ``cluster``: ``"auto"``, ``"slurm"``, ``"local"`` or ``"inline"``;
            ``dry_run``: show the script, queue nothing.

    Returns:
        The job, a Future of rank 0's value; with ``dry_run=True`` a :class:`Preview`.

    Raises:
        InvalidRequest: If the call or the resources break a rule; nothing is queued.
        Rejected: If Slurm refuses the job.
        ClusterUnreachable: If Slurm is configured here and does not answer.
    """
    from helpers.submission.arguments import check_callable, split_keywords

    check_callable(function)
    ours, theirs = split_keywords(function, keywords)
    return Executor(**ours).submit(function, *args, **theirs)


class Executor:
    """Submit several functions with the same settings; every argument of ``submit`` goes to the function.

    It is not a pool: nothing waits when it goes out of scope.

    Args:
        **settings: The keywords of :func:`submit` that are this library's.

    Raises:
        InvalidRequest: If a keyword is none of them.
    """

    def __init__(self, **settings: Any) -> None:
        from helpers.submission.arguments import RESERVED

        for name in sorted(set(settings) - set(RESERVED)):
            import difflib

            near = difflib.get_close_matches(name, RESERVED, n=1)
            hint = f"did you mean {near[0]}?" if near else f"its keywords are: {', '.join(RESERVED)}"
            raise InvalidRequest(f"Executor has no keyword {name!r}.", hint=hint)
        self._settings = settings

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Submit one call; see :func:`submit`."""
        from helpers.submission.arguments import check_callable, function_name
        from helpers.submission.clusters import choose_cluster
        from helpers.submission.inline import INLINE_SCRIPT, run_inline
        from helpers.submission.plan import make_plan

        check_callable(function)
        name = self._settings.get("cluster") or "auto"
        if name == "inline":
            plan = make_plan(function, args, kwargs, cluster=None, settings=self._settings)
            if self._settings.get("dry_run"):
                return cast("Job[R]", _preview(plan, INLINE_SCRIPT))
            return run_inline(plan, function, args, kwargs)
        cluster = choose_cluster(name, call=f"submit({function_name(function)}, …)")
        plan = make_plan(function, args, kwargs, cluster=cluster, settings=self._settings)
        script = cluster.script(
            plan.run,
            plan.resources,
            job_name=plan.description.name,
            setup=plan.setup,
            requeue=plan.requeue_allowed,
        )
        if self._settings.get("dry_run"):
            return cast("Job[R]", _preview(plan, script))
        return _queue(plan, script, cluster)


def _preview(plan: Plan, script: str) -> Preview:
    preview = Preview(script=script, sentence=plan.resources.sentence())
    print(f"{script}\n# {preview.sentence}\n# dry run: nothing was queued")
    return preview


def _queue(plan: Plan, script: str, cluster: Cluster) -> Job[Any]:
    import shutil
    import sys

    from helpers.runtime.status import record_attempt
    from helpers.submission.job import Job
    from helpers.submission.watcher import watcher

    plan.write(script)
    try:
        job_id = cluster.queue(plan.run)
    except (Rejected, ClusterUnreachable):
        shutil.rmtree(plan.run.path)
        raise
    record_attempt(plan.run, event="queued", attempt=0, job_id=job_id, step=None)
    where = plan.resources.sentence() if cluster.name == "slurm" else "this machine"
    print(f"helpers: job {job_id} · {where} · {plan.run.path}", file=sys.stderr)
    job: Job[Any] = Job(plan.run.path, cluster, job_id)
    watcher.watch(job)
    return job
