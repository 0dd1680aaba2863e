"""Other stacks on the same launch: what their how-to pages show, on the real Slurm, on two nodes."""

import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import submit, submit_command
from tests.stacks import functions
from tests.waiting import wait_for

PATIENCE_S = 280
WIDE: dict[str, Any] = {"nodes": 2, "processes": 4, "time": 10}
pytestmark = [pytest.mark.usefixtures("client"), pytest.mark.timeout(600)]


def test_jax_meets_over_two_nodes() -> None:
    """One device a process, on the CPU."""
    seen = submit(functions.jax_sum, **WIDE).results(PATIENCE_S)
    assert [(one["index"], one["count"], one["devices"], one["total"]) for one in seen] == [
        (rank, 4, 4, 10.0) for rank in range(4)
    ]
    assert len({one["node"] for one in seen}) == 2


def test_tensorflow_meets_over_two_nodes() -> None:
    """By TF_CONFIG, which names a port of every worker."""
    seen = submit(functions.tensorflow_sum, **{**WIDE, "processes": 2}).results(PATIENCE_S)
    assert seen == [{"replicas": 2, "index": rank, "workers": 2, "total": 3.0} for rank in range(2)]


def test_accelerate_runs_unchanged() -> None:
    """It reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the gradient is the mean over the ranks."""
    seen = submit(functions.accelerate_sum, **WIDE).results(PATIENCE_S)
    assert seen == [{"index": rank, "local": rank % 2, "count": 4, "gradient": 1.5, "total": 10.0} for rank in range(4)]


def test_lightning_runs_unchanged() -> None:
    """It knows Slurm by itself, and takes our meeting point."""
    seen = _fit(2).results(PATIENCE_S)
    assert seen == [
        {"rank": rank, "world": 4, "local": rank % 2, "epochs": 2, "attempt": 0, "environment": "SLURMEnvironment"}
        for rank in range(4)
    ]


def test_a_preempted_lightning_job_goes_on_from_its_last_checkpoint(client: Path) -> None:
    """Its own requeue waits for a SIGUSR1 that nobody sends; it leaves on SIGTERM, and the job is requeued by us."""
    job = _fit(4, str(client), processes=2, partition="low", requeue=True)
    wait_for(lambda: all((client / f"waits-{rank}").exists() for rank in range(2)), within_s=PATIENCE_S)
    taker = submit_command(["sleep", "1"], partition="gpu", nodes=2, time=5, slurm={"exclusive": True})
    assert taker.result(PATIENCE_S) == 0
    assert (job.result(PATIENCE_S)["epochs"], job.attempt) == (4, 1)


def test_torchrun_spans_two_nodes(client: Path) -> None:
    """One agent a node, which meet where this library says."""
    (client / "ranks.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor([dist.get_rank() + 1.0])\n"
        "dist.all_reduce(total)\n"
        "open('rank-' + os.environ['RANK'], 'w').write(f'{int(total)} {os.environ[\"GROUP_RANK\"]}')\n"
        "dist.destroy_process_group()\n"
    )
    torchrun = Path(sys.executable).with_name("torchrun")
    line = (
        f"exec {torchrun} --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --nproc_per_node=2 "
        "--master_addr=$MASTER_ADDR --master_port=$MASTER_PORT ranks.py"
    )
    assert submit_command(["sh", "-c", line], nodes=2, time=10).results(PATIENCE_S) == [0, 0]
    assert [(client / f"rank-{rank}").read_text() for rank in range(4)] == ["10 0", "10 0", "10 1", "10 1"]


def _fit(epochs: int, folder: str = "", **keywords: Any) -> Any:
    from functools import partial

    wide = {**WIDE, **keywords}
    return submit(partial(functions.lightning_fit, epochs, 2, wide["processes"] // 2, folder), name="fit", **wide)
