"""Start the process that plays the cluster, talk to it, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.testing import shim

if TYPE_CHECKING:
    from helpers.testing.settings import Settings

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "srun")
_PATIENCE_S = 30.0
_LAST_WORDS = 4000


class ControllerProcess:
    """The process, and the folder that holds its state; it runs from the start.

    Args:
        settings: What the cluster is made of.
    """

    def __init__(self, settings: Settings) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fake-slurm-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._write_files(settings)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(self._address))
                listener.listen(128)
                self._process = self._start(listener)
        except BaseException:
            self.stop()
            raise

    @property
    def _address(self) -> Path:
        return self.folder / "socket"

    @property
    def _log(self) -> Path:
        return self.folder / "controller.log"

    def _words(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def _write_files(self, settings: Settings) -> None:
        folder = self.folder
        (folder / "bin").mkdir()
        (folder / "settings.json").write_text(json.dumps(settings.as_json()), encoding="utf-8")
        (folder / "slurm.conf").write_text(f"# of helpers.testing\nClusterName={settings.cluster}\n")
        for name in COMMANDS:
            file = folder / "bin" / name
            words = shlex.join([sys.executable, "-I", "-S", str(Path(shim.__file__)), str(self._address), name])
            file.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
            file.chmod(0o755)

    def _start(self, listener: socket.socket) -> subprocess.Popen[bytes]:
        """Start the process that answers; commands that come before it is there wait for it."""
        import helpers

        number = listener.fileno()
        parent = str(Path(helpers.__file__).parent.parent)
        path = os.pathsep.join([parent, *filter(None, [os.environ.get("PYTHONPATH")])])
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "helpers.testing.controller.server", str(number), str(self.folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, pass_fds=[number],
                env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """End all jobs and remove everything; also where it has been started only in part.

        Raises:
            RuntimeError: With its log, if it had ended before.
        """
        died = self._end()
        words = self._words()
        if died:
            _kill_clients(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if died or "Traceback" in words:
            raise RuntimeError(f"The fake Slurm's controller had a fault:\n{words[-_LAST_WORDS:]}")

    def _end(self) -> bool:
        """End the process; say whether that was not by our word."""
        process, self._process = self._process, None
        if process is None:
            return False
        died = process.poll() is not None
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.write(b".")  # its end without a word would mean that we have been killed
                process.stdin.close()
        try:
            process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True
        return died

    def order(self, order: str, **values: Any) -> dict[str, Any]:
        """Command what a real cluster brings unasked; return what is said of it.

        Args:
            order: Which, as ``controller.control`` knows it.
            values: What belongs to it.

        Raises:
            LookupError: If there is no such job, or none in the right state.
            RuntimeError: If the process has ended, or has a fault.
        """
        message: dict[str, object] = {
            "program": "control",
            "arguments": [order],
            "values": values,
            "folder": "",
            "environment": {},
        }
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.connect(str(self._address))
                connection.sendall(shim.encode(message))
                answer: dict[str, Any] = shim.receive(connection)
        except ConnectionError as error:
            raise RuntimeError(f"The fake Slurm's controller has ended:\n{self._words()[-_LAST_WORDS:]}") from error
        if "error" in answer:
            raise LookupError(answer["error"])
        if answer.get("code"):
            raise RuntimeError(answer["stderr"])
        return answer


def _kill_clients(folder: Path) -> None:
    """Kill the processes of jobs whose controller could not."""
    import psutil

    mark = str(folder / "slurm.conf")
    psutil.process_iter.cache_clear()  # a number may have gone to another process since
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            found = process.environ()
            if process.pid != os.getpid() and found.get("SLURM_JOB_ID") and mark in found.values():
                process.kill()
