"""Exit codes as a shell gives them."""

SIGNAL_BASE = 128
"""A shell, and Slurm's ``srun``, report a process that died by signal n as exit code 128 + n."""


def as_shell_code(code: int) -> int:
    """Turn Python's code of a process that has ended, -n for a death by signal n, into a shell's."""
    return SIGNAL_BASE - code if code < 0 else code
