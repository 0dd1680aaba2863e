"""Tell whether this build of torch has code for a card, and name the build that has.

A wheel holds machine code for some generations of cards. On another one all goes well up to the first kernel, which
fails with "no kernel image is available for execution on the device".
"""

from __future__ import annotations

import re

import torch

from helpers.errors import HelpersError

_INDEX = "--index-url https://download.pytorch.org/whl"
_CODE = re.compile(r"(sm|compute)_(\d+)([af]?)")

_PINS: tuple[tuple[int, int, str], ...] = (
    (50, 74, f'pip install "torch>=2.7,<2.15" {_INDEX}/cu126'),
    (75, 99, f"pip install torch {_INDEX}/cu130"),
    (100, 129, f'pip install "torch>=2.9" {_INDEX}/cu130'),
)
"""Capability from, to, and what installs code for it, as of July 2026.

From PyTorch's table "CUDA Support Matrix" (RELEASE.md, pull request 175253 of 2026-02-18: CUDA 12.6 builds serve 5.0 to
9.0, CUDA 13.0 builds 7.5 to 12.0) and issue 190385 of 2026-07-17 (CUDA 12.6 builds end with release 2.14).
"""


class GpuNotSupported(HelpersError, RuntimeError):
    """This build of torch has no code for the card."""


def check_wheel(device: torch.device) -> None:
    """Make sure that torch has code for a CUDA device.

    Raises:
        GpuNotSupported: With what to install, if it has not.
    """
    built_for = torch.cuda.get_arch_list()
    if torch.version.hip is not None or not built_for:  # AMD names its cards otherwise
        return
    major, minor = torch.cuda.get_device_capability(device)
    if has_code(built_for, major, minor):
        return
    raise GpuNotSupported(
        f"torch {torch.__version__} has no code for {torch.cuda.get_device_name(device)}, which is sm_{major}{minor}: "
        f"it was built for {' '.join(built_for)}.",
        hint=_pin(10 * major + minor),
    )


def has_code(built_for: list[str], major: int, minor: int) -> bool:
    """Say whether one of the builds runs on a card of this capability.

    Machine code (``sm_``) runs on its own major version from its own minor version on, PTX (``compute_``) on all that
    came later; with the suffix ``a`` on exactly one capability, with ``f`` on its family. See the CUDA C++ Programming
    Guide, "Binary Compatibility" and "PTX Compatibility".
    """
    capability = 10 * major + minor
    for kind, digits, suffix in (found.groups() for name in built_for if (found := _CODE.fullmatch(name))):
        number = int(digits)
        if suffix == "a":
            runs = number == capability
        elif kind == "compute" and not suffix:
            runs = number <= capability
        else:
            runs = number // 10 == major and number <= capability
        if runs:
            return True
    return False


def _pin(capability: int) -> str:
    for lowest, highest, command in _PINS:
        if lowest <= capability <= highest:
            return command
    return "No current build of torch has; ask for another type of GPU: submit(..., gpus='TYPE:1')."
