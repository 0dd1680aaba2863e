"""Leave a training for the requeue, and heed the request to do so where no runner of ours listens."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import torch.distributed as dist

from helpers.runtime.current import current_run
from helpers.runtime.stop import OUT_OF_TIME, LeaveForRequeue, begin_to_leave, listen_for_stop, stop_request
from helpers.training.checkpoints.saving import ARRIVAL_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.training.checkpoints.in_flight import SaveInFlight
    from helpers.training.checkpoints.storage import Position
    from helpers.training.ranks.peers import Peers


def leave(saves: SaveInFlight, peers: Peers, position: Position, epoch: int, state: Mapping[str, Any]) -> NoReturn:
    """Save, ask for the requeue when that is durable in every rank, and leave.

    Raises:
        LeaveForRequeue: When the requeue is asked for.
        SaveFailed: If there is nothing to go on from: a requeue would begin anew in silence.
    """
    begin_to_leave()
    failure = saves.save_and_wait(position, epoch, state)
    if failure is not None:
        if saves.durable is None:
            raise failure
        saves.say(f"{failure}\nhelpers: the requeued job will go on from step {saves.durable.step} instead")
    step = saves.durable.step if saves.durable else position.step

    def ask() -> str:
        current_run().ask_for_requeue(step=step)
        return ""

    peers.main_decides("leave", ask, timeout_s=ARRIVAL_S)
    files = current_run().files
    is_cancel = files is not None and files.cancel_mark.exists()
    goal = "the job is cancelled" if is_cancel else "leaving for the requeue"
    request = stop_request()
    unasked = request is not None and request.signal_name == OUT_OF_TIME
    why = "the time limit is near, and a save takes long" if unasked else "asked to stop"
    saves.say(f"{why}: step {step} is saved, {goal}")
    raise LeaveForRequeue(f"step {step} is saved")


def listen_without_our_runner() -> None:
    """Heed SIGTERM under a plain srun or torchrun too, unless the user's code does; our runner has seen to it."""
    scheduled = "SLURM_STEP_ID" in os.environ or dist.is_torchelastic_launched()
    unheeded = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if scheduled and unheeded and threading.current_thread() is threading.main_thread():
        listen_for_stop()
