"""Keep work off a login node: there are other people on it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from helpers.errors import ClusterUnreachable, InvalidRequest
from helpers.runtime.switch import read_switch

if TYPE_CHECKING:
    from helpers.submission.resources.resources import Resources

ALLOW_VARIABLE = "HELPERS_ALLOW_LOCAL"
_LONGEST_MIN = 30


def check_login_node(resources: Resources) -> None:
    """Refuse to run here what belongs on the cluster, where this machine is one of a cluster and no job runs us.

    One process without GPUs, for at most half an hour, may: a look at the data, a dry run of the code.

    Raises:
        InvalidRequest: For anything larger, with what submits it instead.
    """
    allowed = read_switch(os.environ, ALLOW_VARIABLE) is True
    if allowed or "SLURM_JOB_ID" in os.environ or not _belongs_to_a_cluster():
        return
    asked = []
    if resources.processes > 1:
        asked.append(f"{resources.processes} processes")
    if resources.gpus.count:
        asked.append("a GPU" if resources.gpus.count == 1 else f"{resources.gpus.count} GPUs")
    if resources.time_min is not None and resources.time_min > _LONGEST_MIN:
        asked.append(f"{resources.time_min} min")
    if not asked:
        print(f"helpers: {os.uname().nodename} belongs to a cluster: keep this short", file=sys.stderr)
        return
    raise InvalidRequest(
        f"This machine belongs to a cluster, whose nodes are for this: {', '.join(asked)}. Here: one process without "
        f"GPUs, for at most {_LONGEST_MIN} min.",
        hint=f'cluster="slurm" submits it; where this machine is yours alone: export {ALLOW_VARIABLE}=1',
    )


def _belongs_to_a_cluster() -> bool:
    from helpers.submission.clusters.choice import slurm_is_configured

    try:
        return slurm_is_configured()
    except ClusterUnreachable:
        return True
