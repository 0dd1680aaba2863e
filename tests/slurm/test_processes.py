"""The ways to start a training on a cluster by hand: the shell of an allocation, ``srun``, and torchrun inside it."""

import json
import sys
from pathlib import Path

from tests.cluster import Cluster

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "unit" / "training" / "programs" / "meet.py"


def test_a_training_runs_in_an_allocation_as_one_process_under_srun_and_under_torchrun(
    cluster: Cluster, client: Path
) -> None:
    """People try things in an salloc shell first: Slurm tells of two tasks there, and one process runs."""
    train = f"env PYTHONPATH={ROOT} {sys.executable} {PROGRAM} meet"
    torchrun = f"env PYTHONPATH={ROOT} {sys.executable} -m torch.distributed.run --standalone --nproc_per_node=2"
    lines = [train, "echo next", f"srun {train}", "echo next", f"{torchrun} {PROGRAM} meet"]
    done = cluster.run("salloc", "--ntasks=2", "--nodes=1", "--mem=2G", "--time=10", "sh", "-c", " && ".join(lines))
    alone, under_srun, under_torchrun = done.stdout.split("next")
    assert _means(alone) == [0.0]
    assert _means(under_srun) == _means(under_torchrun) == [0.5, 0.5]
    assert done.stderr.count("this is one process in the allocation of job") == 1
    assert done.stderr.count("helpers: 2 processes on 1 node, gloo over lo") == 2
    assert [path.name for path in client.iterdir()] == ["cache"]


def _means(printed: str) -> list[float]:
    return [json.loads(part.splitlines()[0])["mean"] for part in printed.split("RESULT ")[1:]]
