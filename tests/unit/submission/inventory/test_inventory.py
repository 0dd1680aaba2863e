"""What the cluster has is read from Slurm's own words."""

from collections.abc import Sequence

import pytest

from helpers.submission.inventory import inventory
from helpers.submission.inventory.inventory import NodeGroup, Partition, read_gres, read_inventory

CONFIG = """\
Configuration data as of 2024-05-01T10:00:00
ClusterName             = demo
JobRequeue              = 0
MaxArraySize            = 4001
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
"""
PARTITIONS = """\
PartitionName=gpu:shared AllowGroups=ALL AllowAccounts=ALL Default=YES MaxNodes=4 OverSubscribe=NO PreemptMode=REQUEUE \
PriorityTier=10 TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=16
PartitionName=low AllowGroups=ALL AllowAccounts=physics,chem Default=NO MaxNodes=UNLIMITED OverSubscribe=EXCLUSIVE \
PreemptMode=REQUEUE PriorityTier=1
PartitionName=off AllowGroups=staff AllowAccounts=ALL Default=NO MaxNodes=UNLIMITED PreemptMode=OFF PriorityTier=1
"""
NODES = [
    ("gpu:shared*", "up", "7-00:00:00", "1:00:00", "2", "64", "512000", "gpu:a100:4(S:0-1)", "a100,nvme", "idle"),
    ("gpu:shared*", "up", "7-00:00:00", "1:00:00", "1", "64", "512000", "gpu:a100:4(S:0-1)", "a100,nvme", "down*"),
    ("low", "up", "infinite", "n/a", "1", "128+", "1024000+", "gpu:2g.10gb:6,gpu:a100:1", "(null)", "mix"),
    ("off", "inact", "30:00", "10:00", "1", "8", "16000", "(null)", "(null)", "drain"),
]
SINFO = "\n".join("\x1f".join([*row[:9], "NO", "1-infinite", row[9]]) for row in NODES)


@pytest.fixture(autouse=True)
def _slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(command: Sequence[str]) -> str:
        return SINFO if command[0] == "sinfo" else CONFIG if command[-1] == "config" else PARTITIONS

    monkeypatch.setattr(inventory, "ask_slurm", ask)


def test_the_clusters_name_and_limits() -> None:
    """They decide where arrays are split, and whether jobs come back."""
    found = read_inventory()
    assert (found.cluster, found.max_array_size, found.requeue_allowed) == ("demo", 4001, False)
    assert found.gpu_types == ("2g.10gb", "a100")


def test_a_partition_with_its_limits_and_prices() -> None:
    """Nodes that are alike are added up, whatever their state; a name may hold a colon."""
    assert read_inventory().partition("gpu:shared") == Partition(
        name="gpu:shared",
        is_default=True,
        is_up=True,
        max_time_min=7 * 1440,
        default_time_min=60,
        max_nodes=4,
        exclusive=False,
        preemptible=False,
        billing={"cpu": 1.0, "mem": 0.25, "gres/gpu": 16.0},
        nodes=(NodeGroup(count=3, usable=2, cpus=64, mem_mb=512000, gpus={"a100": 4}, features=("a100", "nvme")),),
    )


def test_a_partition_of_lower_priority_is_preemptible() -> None:
    """By Slurm's own rule; one that switches it off is not."""
    found = read_inventory()
    low, off = found.partition("low"), found.partition("off")
    assert low is not None
    assert off is not None
    assert (low.preemptible, low.exclusive, low.accounts, low.max_time_min) == (True, True, ("physics", "chem"), None)
    assert low.nodes[0].gpus == {"2g.10gb": 6, "a100": 1}
    assert (off.preemptible, off.is_up, off.groups, off.nodes[0].usable) == (False, False, ("staff",), 0)


def test_without_preemption_by_partition_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiers then order the queue alone."""
    monkeypatch.setattr(f"{__name__}.CONFIG", CONFIG.replace("preempt/partition_prio", "preempt/none"))
    assert [partition.preemptible for partition in read_inventory().partitions] == [False, False, False]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("(null)", {}),
        ("gpu:4", {"": 4}),
        ("gpu:a100:4(S:0-1),gpu:2g.10gb:2(S:0)", {"a100": 4, "2g.10gb": 2}),
        ("shard:8,tmpdisk:100,gpu:v100:2(IDX:0-1)", {"v100": 2}),
        ("gpu:a100:2,gpu:a100:2", {"a100": 4}),
    ],
)
def test_generic_resources_are_read_as_slurm_writes_them(text: str, gpus: dict[str, int]) -> None:
    """With sockets, without a type, among others, in two parts."""
    assert read_gres(text) == gpus
