"""Start Jupyter on a node, and write down where: ``python -m helpers.runtime.notebook``, as a job's program.

The port is one that is free there, and the token goes by the environment: a command line is for all to read.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import socket
import sys
from typing import NoReturn

from helpers.runtime.current import current_run
from helpers.runtime.run.folder import write_private

_APPLICATIONS = ("jupyterlab", "notebook")


def find_application() -> str | None:
    """Return the module of the Jupyter that this interpreter has; None where it has none."""
    return next((module for module in _APPLICATIONS if importlib.util.find_spec(module) is not None), None)


def main() -> NoReturn:
    """Become Jupyter."""
    run, module = current_run(), find_application()
    if run.files is None or module is None:
        sys.exit("helpers.runtime.notebook is started by helpers notebook, where jupyterlab is installed.")
    node, port, token = socket.gethostname(), _free_port(), secrets.token_hex(24)
    where = {"node": node, "port": port, "token": token, "attempt": run.attempt}
    write_private(run.files.private / "notebook.json", json.dumps(where).encode())
    host = "127.0.0.1" if "SLURM_JOB_ID" not in os.environ else node
    command = [sys.executable, "-m", module, "--no-browser", f"--ip={host}", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", *(["--allow-root"] if os.geteuid() == 0 else []), *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, "JUPYTER_TOKEN": token})  # noqa: S606 -- it gets the signals


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
