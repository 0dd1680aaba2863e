"""Make the fake GPUs: character devices without a driver.

Opening one answers "No such device" (ENXIO), and where the devices cgroup forbids it "Operation not
permitted" (EPERM): that is how a test sees which GPUs a job was given. The major number is from the range
that Linux keeps for local use; NVIDIA's own (195) would forbid or open a developer's real GPUs.
"""

import os
import stat
from pathlib import Path

LOCAL_MAJOR = 120
GPUS = 4
SLICES = 2
GPU_TYPE = "a100"
SLICE_TYPE = "2g.10gb"


def make_devices(folder: Path) -> None:
    """Make one device a GPU and a MIG slice, numbered through as on a real node, open to every user."""
    folder.mkdir()
    for number in range(GPUS + SLICES):
        device = folder / f"nvidia{number}"
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(LOCAL_MAJOR, number))
        device.chmod(0o666)


def gres() -> str:
    """Return the ``Gres=`` value of a node."""
    return f"gpu:{GPU_TYPE}:{GPUS},gpu:{SLICE_TYPE}:{SLICES}"


def gres_lines(folder: Path, nodes: str) -> list[str]:
    """Return the lines of ``gres.conf`` for these nodes."""
    head = f"NodeName={nodes} Name=gpu Flags=nvidia_gpu_env"
    return [
        f"{head} Type={GPU_TYPE} File={folder}/nvidia[0-{GPUS - 1}]",
        f"{head} Type={SLICE_TYPE} File={folder}/nvidia[{GPUS}-{GPUS + SLICES - 1}]",
    ]
