"""Work out a submission and write its run folder, complete before anything is queued."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.config import runs_folder, working_directory
from helpers.errors import InvalidRequest
from helpers.runtime.call import Call, Calls, dump_call, write_call, write_calls
from helpers.runtime.command import Command
from helpers.runtime.description import Description, write_description
from helpers.runtime.files import write_whole
from helpers.runtime.run_folder import RunFolder, new_run_id
from helpers.runtime.secrets import write_secrets
from helpers.runtime.sharing import GROUP, open_to_group
from helpers.submission.amounts import memory_text, parse_minutes
from helpers.submission.arguments import check_call, describe_arguments, function_name, qualified_name
from helpers.submission.dependencies import Dependencies, read_after, replace_jobs
from helpers.submission.request import read_request
from helpers.submission.secrets import read_secrets
from helpers.submission.settings import complete_settings

if TYPE_CHECKING:
    from helpers.submission.clusters import Cluster
    from helpers.submission.resources import Resources

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
_NOT_YET = ("container", "launcher")
_LONGEST_NAME = 100


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A submission, worked out and not yet carried out.

    Args:
        run: The files of the run, none of which exists yet.
        description: What is submitted.
        resources: What is asked for.
        call: The pickled call, or the calls of an array.
        after: The jobs that it waits for.
        setup: Shell lines that run before the ranks.
        secrets: Variables that the ranks get, and that nothing but ``private/`` may hold.
        snapshot: Whether the job is to run the project's source as it is now.
        difference: What the project has that is not committed, as ``git diff`` prints it.
    """

    run: RunFolder
    description: Description
    resources: Resources
    call: bytes | Calls
    after: Dependencies
    setup: Sequence[str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    snapshot: bool = True
    difference: bytes = field(default=b"", repr=False)

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
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    cluster: Cluster | None,
    settings: Mapping[str, Any],
    elements: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] = (),
    max_running: int | None = None,
) -> Plan:
    """Check a call and its settings, and work out the run.

    Args:
        function: What each rank calls.
        args: Its arguments.
        kwargs: Its keyword arguments.
        cluster: Where it goes, and what decides there on what is left open; None for this process.
        settings: The keywords of ``submit`` that are this library's.
        elements: Of an array: the arguments of each element, in place of ``args`` and ``kwargs``.
        max_running: Of an array: how many elements may run at a time.

    Raises:
        InvalidRequest: If any of them breaks a rule, or the call cannot be pickled.
    """
    for one_args, one_kwargs in elements or [(args, dict(kwargs))]:
        check_call(function, one_args, one_kwargs)
    args, kwargs, results = replace_jobs(args, kwargs)
    after = read_after(settings.get("after"), results)
    _refuse_what_is_not_there_yet(settings)
    complete = complete_settings(settings)
    asked_for = complete.values
    command = list(function.words) if isinstance(function, Command) else []
    asked = {key: asked_for[key] for key in _RESOURCE_KEYWORDS if key in asked_for}
    request = read_request(**asked, is_command=bool(command))
    resources = request.settle() if cluster is None else cluster.settle(request)
    resources = replace(resources, chosen=complete.choices(resources.chosen))
    name = check_name(settings.get("name") or function_name(function))
    run_id = new_run_id()
    directory = working_directory()
    description = Description(
        run_id=run_id,
        name=name,
        function=command[0] if command else qualified_name(function),
        arguments=command[1:] if command else describe_arguments(args, kwargs),
        cluster=cluster.name if cluster else "inline",
        place=cluster.place if cluster else platform.node(),
        python=sys.executable,
        sys_path=[str(Path(entry).absolute()) for entry in sys.path],
        directory=str(directory),
        processes=resources.processes,
        nodes=resources.nodes,
        gpus=resources.gpus.count,
        time_min=resources.time_min,
        warning_s=resources.warning_s,
        requeue=_check_requeue(asked_for.get("requeue", "auto")),
        has_checkpoint_method=callable(getattr(function, "checkpoint", None)),
        versions={"python": platform.python_version()},
        resources=_for_people(resources),
        command=command,
        warning_signal=resources.warning_signal,
        settings=_for_the_record(settings),
        after=list(after.folders),
        total_time_min=request.total_time_min,
        max_running=_check_max_running(max_running),
        elements=[describe_arguments(*element) for element in elements],
        share=complete.share,
    )
    return Plan(
        run=RunFolder(runs_folder(directory, complete.settings) / name / run_id),
        description=description,
        resources=resources,
        call=_pickle_all(function, elements) if elements else _pickle(function, args, kwargs),
        after=after,
        setup=_check_setup(asked_for.get("setup")),
        snapshot=complete.snapshot,
        secrets=read_secrets(),
    )


def check_name(name: Any) -> str:
    """Return a name that can be that of a folder and of a job.

    Raises:
        InvalidRequest: For a path, a hidden name, control characters, or an overlong name.
    """
    text = str(name)
    bad = [character for character in text if character == "/" or not character.isprintable()]
    if bad or not text.strip() or text.startswith(".") or len(text) > _LONGEST_NAME:
        raise InvalidRequest(
            f"A run's name is one folder name of at most {_LONGEST_NAME} printable characters, without '/' and "
            f"not starting with '.'; got {text!r}.",
            hint='name="resnet50-lr3e-4"',
        )
    return text


def _refuse_what_is_not_there_yet(settings: Mapping[str, Any]) -> None:
    for name in _NOT_YET:
        if settings.get(name) is not None:
            raise InvalidRequest(
                f"{name}= is a reserved keyword without a meaning in this version.", hint=f"leave {name}= out"
            )


def _check_requeue(value: Any) -> str | bool:
    if isinstance(value, bool):
        return value
    if value == "auto":
        return "auto"
    raise InvalidRequest(f"requeue is 'auto', True or False; got {value!r}.", hint='requeue="auto"')


def _check_setup(lines: Any) -> Sequence[str]:
    if lines is None:
        return ()
    if isinstance(lines, str):
        return (lines,)
    if not isinstance(lines, Sequence) or not all(isinstance(line, str) for line in lines):
        raise InvalidRequest(f"setup is a list of shell lines; got {lines!r}.", hint='setup=["module load cuda"]')
    return tuple(lines)


def _pickle(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    try:
        return dump_call(Call(function, args, dict(kwargs)))
    except Exception as error:
        name = _culprit(function, args, kwargs)
        raise InvalidRequest(
            f"{name} cannot be pickled, so it cannot be sent to a job: {error}.",
            hint="pass what it is made from (a path, a configuration) and make it inside the function",
        ) from error


def _pickle_all(function: Callable[..., Any], elements: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]) -> Calls:
    try:
        return Calls.of(function, list(elements))
    except Exception:
        for args, kwargs in elements:
            _pickle(function, args, kwargs)  # raises, naming the argument
        raise


def _for_the_record(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as JSON keeps them; what is of one submission only is left out."""
    kept = {name: value for name, value in settings.items() if name not in {"after", "dry_run"}}
    return {
        name: parse_minutes(value) if isinstance(value, timedelta) else json.loads(json.dumps(value, default=str))
        for name, value in kept.items()
    }


def _check_max_running(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise InvalidRequest(f"max_running is a whole number from 1 up; got {value!r}.", hint="max_running=8")


def _culprit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    named = {f"argument {number}": value for number, value in enumerate(args)}
    named |= {f"argument {key!r}": value for key, value in kwargs.items()}
    for name, value in named.items():
        try:
            dump_call(Call(print, (value,), {}))
        except Exception:  # noqa: BLE001 -- pickling runs the user's code
            return f"{name} ({type(value).__module__}.{type(value).__qualname__})"
    return f"the function {function_name(function)} (or a variable that it uses)"


def _for_people(resources: Resources) -> dict[str, str]:
    known = {
        "gpus": resources.gpus.per_node(1) if resources.gpus.count else None,
        "nodes": resources.nodes,
        "processes": resources.processes,
        "cpus": resources.cpus,
        "mem": None if resources.mem_mb is None else memory_text(resources.mem_mb),
        "time_min": resources.time_min,
        "partition": resources.partition,
        "account": resources.account,
        "qos": resources.qos,
    }
    return {name: str(value) for name, value in known.items() if value is not None}
