"""Hand the daemon that ``mpirun`` wants on a node to this library's process there.

Started by ``mpirun`` as ``python -m helpers.runtime.mpi.daemon HOST WORDS…``, in the place of ``ssh``: the words are
for a shell on that host.
"""

from __future__ import annotations

import ipaddress
import sys
from typing import TYPE_CHECKING

from helpers.runtime.current import current_run
from helpers.runtime.files import write_json

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.runtime.run.folder import AttemptFolder


def daemon_file(attempt: AttemptFolder, host: str) -> Path:
    """Return the file with the words for a host, be it named with its domain or without."""
    try:
        name = str(ipaddress.ip_address(host))
    except ValueError:
        name = host.partition(".")[0]
    return attempt.path / f"mpi-daemon-{name}.json"


def main(host: str, *words: str) -> None:
    """Write the words where the process on that host looks for them; ``mpirun`` goes on when this ends."""
    attempt = current_run().attempt_files
    if attempt is None:
        sys.exit("helpers.runtime.mpi.daemon is started by mpirun, in a job.")
    write_json(daemon_file(attempt, host), {"line": " ".join(words)})


if __name__ == "__main__":
    main(*sys.argv[1:])
