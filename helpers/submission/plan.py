"""Work out a submission and write its run folder, complete before anything is queued."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.config import runs_folder, working_directory
from helpers.errors import InvalidRequest
from helpers.runtime.call import Call, dump_call, write_call
from helpers.runtime.description import Description, write_description
from helpers.runtime.files import write_whole
from helpers.runtime.run_folder import RunFolder, new_run_id
from helpers.submission.amounts import memory_text
from helpers.submission.arguments import check_call, describe_arguments, function_name, qualified_name
from helpers.submission.request import read_request

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
    "partition",
    "account",
    "qos",
    "slurm",
)
_NOT_YET = ("total_time", "after", "profile", "container", "launcher")
_LONGEST_NAME = 100


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A submission, worked out and not yet carried out.

    Args:
        run: The files of the run, none of which exists yet.
        description: What is submitted.
        resources: What is asked for.
        call: The pickled call.
        setup: Shell lines that run before the ranks.
    """

    run: RunFolder
    description: Description
    resources: Resources
    call: bytes
    setup: Sequence[str]

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
        write_call(self.run, self.call, durable=False)
        write_description(self.run, self.description)
        write_whole(self.run.script, script.encode(), durable=False)


def make_plan(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    cluster: Cluster | None,
    settings: Mapping[str, Any],
) -> Plan:
    """Check a call and its settings, and work out the run.

    Args:
        function: What each rank calls.
        args: Its arguments.
        kwargs: Its keyword arguments.
        cluster: Where it goes, and what decides there on what is left open; None for this process.
        settings: The keywords of ``submit`` that are this library's.

    Raises:
        InvalidRequest: If any of them breaks a rule, or the call cannot be pickled.
    """
    check_call(function, args, kwargs)
    _refuse_what_is_not_there_yet(settings)
    request = read_request(**{key: settings[key] for key in _RESOURCE_KEYWORDS if key in settings})
    resources = request.settle() if cluster is None else cluster.settle(request)
    name = check_name(settings.get("name") or function_name(function))
    run_id = new_run_id()
    directory = working_directory()
    description = Description(
        run_id=run_id,
        name=name,
        function=qualified_name(function),
        arguments=describe_arguments(args, kwargs),
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
        requeue=_check_requeue(settings.get("requeue", "auto")),
        has_checkpoint_method=callable(getattr(function, "checkpoint", None)),
        versions={"python": platform.python_version()},
        resources=_for_people(resources),
    )
    return Plan(
        run=RunFolder(runs_folder(directory) / name / run_id),
        description=description,
        resources=resources,
        call=_pickle(function, args, kwargs),
        setup=_check_setup(settings.get("setup")),
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
