"""Run a command on a terminal of its own."""

import os
import pty
import subprocess
import sys


def helpers_on_terminal(*words: str, typed: str = "") -> tuple[str, int]:
    """Return what ``helpers`` shows on a terminal until it ends, and its exit code."""
    ours, its = pty.openpty()
    os.write(ours, typed.encode())
    command = [sys.executable, "-m", "helpers.cli", *words]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
    shown = b""
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # its side is closed
                break
            if not data:
                break
            shown += data
    os.close(ours)
    return shown.decode(errors="replace").replace("\r\n", "\n"), process.returncode
