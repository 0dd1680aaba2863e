"""Submit a function: the two ways to call it, and what they do with the plan.

The rest of the library loads at the first submission, not at import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from helpers.submission.short_traceback import ShortTraceback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from helpers.submission.clusters.choice import Cluster
    from helpers.submission.jobs.array import JobArray
    from helpers.submission.jobs.job import Job
    from helpers.submission.plan import Plan
    from helpers.submission.resources.choices import Choice
    from helpers.submission.resources.settings import CompleteSettings
    from helpers.submission.sweep import Arguments

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
            ``container``: the image that the ranks run in: ``"image.sif"``, a folder, ``"docker://…"``;
            ``launcher``: ``"mpi"`` for the ranks of an MPI program;
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

    with ShortTraceback():
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
    from helpers.submission.arguments import check_keywords

    with ShortTraceback():
        check_keywords("submit_array", settings, note="; the arguments of a call stand in its item: grid(lr=[0.1])")
        return Executor(**settings).map(function, items, max_running=max_running)


class Executor:
    """Submit several functions with the same settings; every argument of ``submit`` goes to the function.

    It is not a pool: nothing waits when it goes out of scope, nor at the end of a ``with``.

    Args:
        **settings: The keywords of :func:`submit` that are this library's.

    Raises:
        InvalidRequest: If a keyword is none of them.
    """

    def __init__(self, **settings: Any) -> None:
        from helpers.submission.arguments import check_keywords

        with ShortTraceback():
            check_keywords("Executor", settings)
        self._settings = settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the jobs alone, where a pool would wait for them."""

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Submit one call; see :func:`submit`."""
        with ShortTraceback():
            return cast("Job[R]", self._submit(function, [(args, kwargs)]))

    def map(
        self, function: Callable[..., R], items: Iterable[Any], /, *, max_running: int | None = None
    ) -> JobArray[R]:
        """Submit one call for each item, as one job array; see :func:`submit_array`."""
        from helpers.submission.sweep import read_calls

        with ShortTraceback():
            calls = read_calls(items)
            return cast("JobArray[R]", self._submit(function, calls, is_array=True, max_running=max_running))

    def _submit(
        self,
        function: Callable[..., Any],
        calls: Sequence[Arguments],
        *,
        is_array: bool = False,
        max_running: int | None = None,
    ) -> Job[Any] | JobArray[Any] | Preview:
        """Submit calls: one path for a job and for an array, which differ in their folder and in what queues them."""
        from helpers.submission.arguments import check_callable, function_name
        from helpers.submission.clusters.choice import choose_cluster, say_no_slurm
        from helpers.submission.clusters.inline import INLINE_SCRIPT
        from helpers.submission.plan import make_plan
        from helpers.submission.preparation import prepare
        from helpers.submission.queueing import queue, write_script
        from helpers.submission.resources.settings import complete_settings

        check_callable(function)
        settings = complete_settings(self._settings)
        cluster = None if settings.cluster == "inline" else choose_cluster(settings.cluster)
        if cluster is None and not self._settings.get("dry_run"):
            return _run_inline(function, calls, settings, is_array=is_array)
        plan = make_plan(
            function, calls, cluster=cluster, complete=settings, is_array=is_array, max_running=max_running
        )
        if cluster is not None and (settings.cluster, cluster.name) == ("auto", "local"):
            say_no_slurm(f"submit{'_array' if is_array else ''}({function_name(function)}, …)")
        script = INLINE_SCRIPT if cluster is None else write_script(plan, cluster)
        if cluster is None or self._settings.get("dry_run"):
            return _preview(plan, script, cluster)
        return queue(prepare(plan), script, cluster)


def _run_inline(
    function: Callable[..., Any], calls: Sequence[Arguments], settings: CompleteSettings, *, is_array: bool
) -> Job[Any] | JobArray[Any]:
    """Run one call after another, once all are checked, each with a run folder of its own."""
    from helpers.submission.clusters.inline import run_inline
    from helpers.submission.jobs.array import JobArray
    from helpers.submission.plan import make_plan

    plans = [make_plan(function, [one], cluster=None, complete=settings) for one in calls]
    jobs = [run_inline(plan) for plan in plans]
    return JobArray(jobs[0].folder.parent, jobs) if is_array else jobs[0]


def _preview(plan: Plan, script: str, cluster: Cluster | None) -> Preview:
    from helpers.submission.resources.choices import as_comments, choices_of

    preview = Preview(
        script=script,
        sentence=plan.resources.sentence(),
        choices=choices_of(plan),
        estimate=cluster.estimate_start(script) if cluster else "",
    )
    print(script, f"# {preview.sentence}", *as_comments(preview.choices), sep="\n")
    print(*([f"# {preview.estimate}"] if preview.estimate else []), "# dry run: nothing was queued", sep="\n")
    return preview
