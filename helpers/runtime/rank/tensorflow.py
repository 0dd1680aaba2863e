"""Tell TensorFlow where the workers are: ``TF_CONFIG``.

Unlike others it wants a port on every worker, known to all before the first one listens. So each rank publishes one in
the attempt's folder, and rank 0 writes the list that all read.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from helpers.errors import HelpersError
from helpers.runtime.current import current_run
from helpers.runtime.files import read_json, write_json
from helpers.runtime.rank.addresses import LOOPBACK
from helpers.runtime.rank.meeting_point import hold_free_port, own_address

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_POLL_S = 0.05


def export_tf_config(*, timeout_s: float = 600) -> None:
    """Set ``TF_CONFIG`` to all ranks of the run as workers, before a ``MultiWorkerMirroredStrategy`` is made.

    Every rank calls it. With one process, outside a job, and where ``TF_CONFIG`` is set, it does nothing. The format is
    that of TensorFlow's guide "Multi-worker training"; worker 0 is rank 0.

    Args:
        timeout_s: Seconds that the ranks wait for each other.

    Raises:
        HelpersError: If a rank does not come in time.
    """
    run = current_run()
    if run.attempt_files is None or run.world_size == 1 or "TF_CONFIG" in os.environ:
        return
    folder = run.attempt_files.path
    host = LOOPBACK if run.ranks.local_world_size == run.world_size else own_address()
    worker = f"[{host}]:{hold_free_port()}" if ":" in host else f"{host}:{hold_free_port()}"  # as gRPC wants IPv6
    write_json(folder / f"worker-{run.rank}.json", worker, durable=False)
    deadline = time.monotonic() + timeout_s
    if run.is_main:
        told = [_wait_for(folder / f"worker-{rank}.json", deadline) for rank in range(run.world_size)]
        write_json(folder / "workers.json", told, durable=False)
    workers = _wait_for(folder / "workers.json", deadline)
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": run.rank}},
    )


def _wait_for(path: Path, deadline: float) -> Any:
    while (value := read_json(path)) is None:
        if time.monotonic() > deadline:
            raise HelpersError(
                f"Another rank did not write {path} in time.",
                hint="look at the logs of all ranks: each has to call export_tf_config()",
            )
        time.sleep(_POLL_S)
    return value
