"""What happens between a plan and the queue: its size is judged, its source is kept, its call is tried."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.runtime.call import Calls
from helpers.runtime.element import find_runs_folder
from helpers.submission.preflight import check_array_loads, check_loads
from helpers.submission.sizes import check_array_size, check_size
from helpers.submission.snapshot import take_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from helpers.submission.plan import Plan


def prepare(
    plan: Plan,
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    elements: Sequence[tuple[tuple[Any, ...], dict[str, Any]]] = (),
) -> Plan:
    """Return the plan with its source, once nothing speaks against queueing it.

    A program's own files are not this library's to copy: of a command only commit and changes are noted.

    Args:
        plan: What ``make_plan`` has worked out.
        function: What is called.
        args: Its arguments.
        kwargs: Its keyword arguments.
        elements: Of an array: the arguments of each element.

    Raises:
        InvalidRequest: If the call is too large, or cannot be loaded in a fresh interpreter.
    """
    kwargs = kwargs or {}
    call, command = plan.call, plan.description.command
    if isinstance(call, Calls):
        check_array_size(call, function, elements)
    else:
        check_size(len(call), function, args, kwargs)
    plan = with_source(plan, snapshot=not command)
    if isinstance(call, Calls):
        check_array_loads(call, plan.description, function, elements)
    elif not command:
        check_loads(call, plan.description, function, args, kwargs)
    return plan


def with_source(plan: Plan, *, snapshot: bool = True) -> Plan:
    """Return the plan with the project's source as it is now."""
    directory = Path(plan.description.directory)
    taken = take_source(directory, find_runs_folder(plan.run), wanted=snapshot and plan.snapshot)
    if taken is None:
        return plan
    description = replace(plan.description, source=asdict(taken.source))
    return replace(plan, description=description, difference=taken.difference)
