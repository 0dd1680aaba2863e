"""Work out a submission and write its run folder, complete before anything is queued."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from helpers.config import find_project, runs_folder
from helpers.runtime.files import write_whole
from helpers.runtime.rank.call import Calls, write_call, write_calls
from helpers.runtime.rank.command import Command
from helpers.runtime.run.description import Description, write_description
from helpers.runtime.run.folder import RunFolder, new_run_id
from helpers.runtime.run.secrets import write_secrets
from helpers.runtime.run.sharing import GROUP, open_to_group
from helpers.submission.arguments import check_calls, describe_arguments, function_name, qualified_name
from helpers.submission.dependencies import Dependencies, read_after, replace_jobs
from helpers.submission.keywords import check_max_running, check_name, check_requeue, check_setup
from helpers.submission.pickling import pickle_call, pickle_calls
from helpers.submission.raw_data import note_raw_data
from helpers.submission.resources.request import Request, read_request
from helpers.submission.source.secrets import read_secrets
from helpers.submission.surroundings import Surroundings, module_lines, settle_surroundings
from helpers.submission.variables import variables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from helpers.submission.clusters.choice import Cluster
    from helpers.submission.resources.resources import Resources
    from helpers.submission.resources.settings import CompleteSettings
    from helpers.submission.sweep import Arguments

_RESOURCE_KEYWORDS = (
    "gpus",
    "nodes",
    "processes",
    "cpus",
    "mem",
    "time",
    "total_time",
    "partition",
    "account",
    "qos",
    "slurm",
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A submission, worked out and not yet carried out.

    Args:
        run: The files of the run, none of which exists yet.
        description: What is submitted.
        resources: What is asked for.
        call: The pickled call, or the calls of an array.
        function: What is called.
        calls: The arguments of each call: of one, or of an array's elements.
        after: The jobs that it waits for.
        setup: Shell lines that run before the ranks.
        surroundings: What the ranks run in.
        secrets: Variables that the ranks get, and that nothing but ``private/`` may hold.
        snapshot: Whether the job is to run the project's source as it is now.
        difference: What the project has that is not committed, as ``git diff`` prints it.
    """

    run: RunFolder
    description: Description
    resources: Resources
    call: bytes | Calls
    function: Callable[..., Any] = field(repr=False)
    calls: Sequence[Arguments] = field(repr=False)
    after: Dependencies
    setup: Sequence[str]
    surroundings: Surroundings = field(default_factory=Surroundings)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    snapshot: bool = True
    difference: bytes = field(default=b"", repr=False)

    @property
    def is_array(self) -> bool:
        """Whether it is a job array, be it of one element."""
        return isinstance(self.call, Calls)

    @property
    def requeue_allowed(self) -> bool:
        """Whether Slurm may requeue the job; whether it then runs again, the job itself decides."""
        return self.description.requeue is not False

    def write(self, script: str) -> None:
        """Make the run folder, complete.

        Raises:
            InvalidRequest: If it cannot be made.
        """
        self.run.create()
        if isinstance(self.call, Calls):
            write_calls(self.run, self.call)
        else:
            write_call(self.run, self.call, durable=False)
        write_secrets(self.run, self.secrets)
        write_description(self.run, self.description)
        write_whole(self.run.script, script.encode(), durable=False)
        if self.difference:
            write_whole(self.run.changes, self.difference, durable=False)
        if self.description.share == GROUP:
            open_to_group(self.run)


def make_plan(
    function: Callable[..., Any],
    calls: Sequence[Arguments],
    *,
    cluster: Cluster | None,
    complete: CompleteSettings,
    is_array: bool = False,
    max_running: int | None = None,
) -> Plan:
    """Check calls and their settings, and work out the run.

    Args:
        function: What each rank calls.
        calls: The arguments of each call; one, unless it is an array.
        cluster: Where it goes, and what decides there on what is left open; None for this process.
        complete: The keywords of ``submit`` that are this library's, and the settings that fill them in.
        is_array: Whether the calls are the elements of an array.
        max_running: Of an array: how many elements may run at a time.

    Raises:
        InvalidRequest: If any of them breaks a rule, or the call cannot be pickled.
    """
    check_calls(function, calls)
    sent, results = replace_jobs(calls)
    after = read_after(complete.given.get("after"), results)
    where = cluster.name if cluster else "inline"
    request = _read_request(complete, is_command=isinstance(function, Command))
    settled = request.settle() if cluster is None else cluster.settle(request)
    resources = replace(settled, chosen=complete.choices(settled.chosen))
    name = check_name(function_name(function) if complete.given.get("name") is None else complete.given["name"])
    runs, project = runs_folder(complete.directory, complete.settings), find_project(complete.directory)
    surroundings = settle_surroundings(
        complete, directory=complete.directory, runs=runs, gpus=resources.gpus.count, cluster=where
    )
    description = Description(
        run_id=new_run_id(),
        name=name,
        cluster=where,
        place=cluster.place if cluster else platform.node(),
        after=list(after.folders),
        total_time_min=request.total_time_min,
        **_described_settings(complete, project, on_cluster=where == "slurm"),
        **_described_calls(function, calls, is_array=is_array, max_running=max_running),
        **_described(resources),
        **surroundings.described(is_command=isinstance(function, Command)),
    )
    return Plan(
        run=RunFolder(runs / name / description.run_id),
        description=description,
        resources=resources,
        call=pickle_calls(function, sent) if is_array else pickle_call(function, *sent[0]),
        function=function,
        calls=calls,
        after=after,
        setup=_setup_lines(complete),
        surroundings=surroundings,
        snapshot=complete.snapshot,
        secrets=read_secrets(project or complete.directory),
    )


def _read_request(complete: CompleteSettings, *, is_command: bool) -> Request:
    """Return what the call and the settings ask for, checked."""
    values = complete.values
    return read_request(**{key: values[key] for key in _RESOURCE_KEYWORDS if key in values}, is_command=is_command)


def _setup_lines(complete: CompleteSettings) -> Sequence[str]:
    """Return the shell lines that run before the ranks: first those that load modules."""
    values = complete.values
    return (*module_lines(values.get("modules")), *check_setup(values.get("setup")))


def _described_settings(complete: CompleteSettings, project: Path | None, *, on_cluster: bool) -> dict[str, Any]:
    """Return what a description tells of the settings."""
    return {
        "raw_data": note_raw_data(project, complete.settings),
        "directory": str(complete.directory),
        "settings": complete.record,
        "share": complete.share,
        "requeue": check_requeue(complete.values.get("requeue", "auto")),
        "variables": variables_of(complete.directory, complete.settings, on_cluster=on_cluster),
    }


def _described_calls(
    function: Callable[..., Any], calls: Sequence[Arguments], *, is_array: bool, max_running: int | None
) -> dict[str, Any]:
    """Return what a description tells of what is called."""
    arguments = [describe_arguments(*one) for one in calls]
    known = {
        "max_running": check_max_running(max_running),
        "elements": arguments if is_array else [],
        "has_checkpoint_method": callable(getattr(function, "checkpoint", None)),
    }
    if isinstance(function, Command):
        program, *words = function.words
        return known | {"function": program, "arguments": words, "command": [program, *words]}
    return known | {
        "function": qualified_name(function),
        "arguments": [] if is_array else arguments[0],
    }


def _described(resources: Resources) -> dict[str, Any]:
    """Return what a description tells of the resources."""
    return {
        "processes": resources.processes,
        "nodes": resources.nodes,
        "gpus": resources.gpus.count,
        "time_min": resources.time_min,
        "warning_s": resources.warning_s,
        "warning_signal": resources.warning_signal,
        "resources": resources.asked_for,
    }
