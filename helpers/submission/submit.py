"""Submit a function: the two ways to call it, and what they do with the plan.

The rest of the library loads at the first submission, not at import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from helpers.errors import ClusterUnreachable, InvalidRequest, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from helpers.submission.array import JobArray
    from helpers.submission.choices import Choice
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
        choices: What would be asked for, each thing with its origin.
        estimate: When it would start, by Slurm's own estimate, or why Slurm would refuse it; empty elsewhere.
    """

    script: str
    sentence: str
    choices: tuple[Choice, ...] = ()
    estimate: str = ""

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
            ``after``: jobs that must have succeeded; ``total_time`` of all attempts together;
            ``profile``: settings by their name; ``requeue``: ``"auto"``, True or False;
            ``slurm``: any sbatch option by its long name;
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


def submit_array(
    function: Callable[..., R], items: Iterable[Any], /, *, max_running: int | None = None, **settings: Any
) -> JobArray[R]:
    """Submit one call of ``function`` for each item, as one job array, and return at once.

    Args:
        function: What each rank of each element calls.
        items: A :func:`grid`, a list of :func:`call`, or any other values, each of which is the one argument.
        max_running: How many elements may run at a time; None for as many as fit.
        **settings: The keywords of :func:`submit` that are this library's; of each element.

    Returns:
        The jobs, one for each item, in their order.

    Raises:
        InvalidRequest: If a call or the resources break a rule; nothing is queued, not even a part.
        Rejected: If Slurm refuses the array, or the first part of one that is larger than it allows.
        ClusterUnreachable: If Slurm is configured here and does not answer.
    """
    return Executor(**settings).map(function, items, max_running=max_running)


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
        from helpers.submission.preparation import prepare
        from helpers.submission.settings import cluster_setting

        check_callable(function)
        name = cluster_setting(self._settings)
        if name == "inline":
            plan = make_plan(function, args, kwargs, cluster=None, settings=self._settings)
            if self._settings.get("dry_run"):
                return cast("Job[R]", _preview(plan, INLINE_SCRIPT, None))
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
            return cast("Job[R]", _preview(plan, script, cluster))
        return _queue(prepare(plan, function, args, kwargs), script, cluster)

    def map(
        self, function: Callable[..., R], items: Iterable[Any], /, *, max_running: int | None = None
    ) -> JobArray[R]:
        """Submit one call for each item, as one job array; see :func:`submit_array`."""
        from helpers.submission.arguments import check_callable, function_name
        from helpers.submission.clusters import choose_cluster
        from helpers.submission.plan import make_plan
        from helpers.submission.preparation import prepare
        from helpers.submission.settings import cluster_setting
        from helpers.submission.sweep import read_calls

        check_callable(function)
        calls = read_calls(items)
        name = cluster_setting(self._settings)
        if name == "inline":
            return _run_inline_one_by_one(self, function, calls)
        cluster = choose_cluster(name, call=f"submit_array({function_name(function)}, …)")
        plan = make_plan(
            function, (), {}, cluster=cluster, settings=self._settings, elements=calls, max_running=max_running
        )
        script = cluster.script(
            plan.run,
            plan.resources,
            job_name=plan.description.name,
            setup=plan.setup,
            requeue=plan.requeue_allowed,
            is_array=True,
        )
        if self._settings.get("dry_run"):
            return cast("JobArray[R]", _preview(plan, script, cluster))
        return _queue_array(prepare(plan, function, elements=calls), script, cluster)


def _run_inline_one_by_one(
    executor: Executor, function: Callable[..., Any], calls: list[tuple[tuple[Any, ...], dict[str, Any]]]
) -> JobArray[Any]:
    from helpers.submission.array import JobArray

    jobs = [executor.submit(function, *args, **kwargs) for args, kwargs in calls]
    return JobArray(jobs[0].folder.parent, jobs)


def _queue_array(plan: Plan, script: str, cluster: Cluster) -> JobArray[Any]:
    import shutil
    import sys

    from helpers.submission.array import record_array, watch_array

    plan.write(script)
    count = len(plan.description.elements)
    try:
        chunks = cluster.queue_array(plan.run, count, plan.description.max_running, after=plan.after.option)
    except (Rejected, ClusterUnreachable):
        shutil.rmtree(plan.run.path)
        raise
    ids = record_array(plan.run, chunks)
    where = plan.resources.sentence() if cluster.name == "slurm" else "this machine"
    numbers = ", ".join(job_id for job_id, _ in chunks)
    print(f"helpers: job array {numbers} · {count} × {where} · {plan.run.path}", file=sys.stderr)
    return watch_array(plan.run, plan.description, cluster, ids)


def _preview(plan: Plan, script: str, cluster: Cluster | None) -> Preview:
    from helpers.submission.choices import as_comments, choices_of

    preview = Preview(
        script=script,
        sentence=plan.resources.sentence(),
        choices=choices_of(plan),
        estimate=cluster.estimate_start(script) if cluster else "",
    )
    print(script, f"# {preview.sentence}", *as_comments(preview.choices), sep="\n")
    print(*([f"# {preview.estimate}"] if preview.estimate else []), "# dry run: nothing was queued", sep="\n")
    return preview


def _queue(plan: Plan, script: str, cluster: Cluster) -> Job[Any]:
    import shutil
    import sys

    from helpers.runtime.status import record_attempt
    from helpers.submission.job import Job
    from helpers.submission.watcher import watcher

    plan.write(script)
    try:
        job_id = cluster.queue(plan.run, after=plan.after.option)
    except (Rejected, ClusterUnreachable):
        shutil.rmtree(plan.run.path)
        raise
    record_attempt(plan.run, durable=False, event="queued", attempt=0, job_id=job_id, step=None)
    where = plan.resources.sentence() if cluster.name == "slurm" else "this machine"
    print(f"helpers: job {job_id} · {where} · {plan.run.path}", file=sys.stderr)
    job: Job[Any] = Job(plan.run.path, cluster, job_id)
    watcher.watch(job)
    return job
