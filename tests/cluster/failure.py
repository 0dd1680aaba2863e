"""Say why a cluster did not come up: the sentence, and the end of the log that explains it."""

from pathlib import Path

TAIL_LINES = 60  # mariadb-install-db ends with 40 lines of advice, and says before them what failed


class ClusterError(RuntimeError):
    """The cluster, or a part of it, did not do what was asked."""


def log_tail(*logs: Path) -> str:
    """Return the last lines of each log that has any, under its name."""
    parts = []
    for log in logs:
        lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
        if lines:
            parts.append("\n".join([f"--- end of {log.name}", *lines[-TAIL_LINES:]]))
    return "\n".join(parts) or "(its logs are empty)"
