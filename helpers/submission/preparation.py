"""What happens between a plan and the queue: its size is judged, its source is kept, its call is tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.runtime.rank.call import Calls
from helpers.runtime.run.element import find_runs_folder
from helpers.submission.source.preflight import check_array_loads, check_loads
from helpers.submission.source.sizes import check_array_size, check_size
from helpers.submission.source.snapshot import take_source

if TYPE_CHECKING:
    from helpers.submission.plan import Plan


def prepare(plan: Plan) -> Plan:
    """Return the plan with its source, once nothing speaks against queueing it.

    Raises:
        InvalidRequest: If the call is too large, or cannot be loaded in a fresh interpreter.
    """
    call = plan.call
    if isinstance(call, Calls):
        check_array_size(call, plan.function, plan.calls)
    else:
        check_size(len(call), plan.function, *plan.calls[0])
    plan = with_source(plan)
    container = plan.surroundings.container
    if container is not None:
        find_runs_folder(plan.run).mkdir(parents=True, exist_ok=True)  # it is bound
        container.engine.prepare(container)
    if isinstance(call, Calls):
        check_array_loads(call, plan.description, plan.function, plan.calls)
    elif not plan.description.command:
        check_loads(call, plan.description, plan.function, *plan.calls[0])
    return plan


def with_source(plan: Plan) -> Plan:
    """Return the plan with the project's source as it is now."""
    directory = Path(plan.description.directory)
    taken = take_source(directory, find_runs_folder(plan.run), wanted=plan.snapshot)
    if taken is None:
        return plan
    description = replace(plan.description, source=dict(vars(taken.source)))
    return replace(plan, description=description, difference=taken.difference)
