"""Be ``sbatch``, ``squeue`` or another of Slurm's commands: hand the words on, print the answer.

It is run as a script, once for each command, so it imports as little as it can: not even this library.

The wire, over a Unix socket: four bytes of length and JSON, both ways. The three standard streams travel with
the first byte, so that ``srun``'s tasks write where ``srun`` would.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys

_NO_CONTACT = "Unable to contact slurm controller (connect failure)"
_SILENT = {
    "sbatch": (f"sbatch: error: Batch job submission failed: {_NO_CONTACT}\n", 1),
    "squeue": (f"slurm_load_jobs error: {_NO_CONTACT}\n", 1),
    "scancel": (f"scancel: error: Kill job error on job id {{id}}: {_NO_CONTACT}\n", 8),
    "scontrol": (f"slurm_load_ctl_conf error: {_NO_CONTACT}\n", 1),
    "scontrol show job": (f"slurm_load_jobs error: {_NO_CONTACT}\n", 1),
    "scontrol show partition": (f"slurm_load_partitions error: {_NO_CONTACT}\n", 1),
    "scontrol show node": (f"slurm_load_node error: {_NO_CONTACT}\n", 1),
    "scontrol requeue": ("Unexpected message received for job {id}\n", 1),
    "sinfo": (f"slurm_load_partitions: {_NO_CONTACT}\n", 1),
    "srun": (f"srun: error: Unable to allocate resources: {_NO_CONTACT}\n", 1),
}


def silence(program: str, arguments: list[str]) -> tuple[str, int]:
    """Return what a command says, and its exit code, when the controller does not answer."""
    words = [word for word in arguments if not word.startswith("-")]
    keys = [f"{program} {' '.join(words[:2])}", f"{program} {' '.join(words[:1])}", program]
    text, code = next(_SILENT[key] for key in keys if key in _SILENT)
    return text.replace("{id}", words[-1] if words else "0"), code


def receive(connection: socket.socket) -> dict[str, object]:
    """Return one message.

    Raises:
        ConnectionError: If the other side ends before it is whole.
    """
    size = int.from_bytes(_read(connection, 4), "big")
    message: dict[str, object] = json.loads(_read(connection, size))
    return message


def encode(message: dict[str, object]) -> bytes:
    """Return a message as it goes over the wire."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "big") + body


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the controller went away")
        data += part
    return data


def _ask(address: str, message: dict[str, object]) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(address)
        data = encode(message)
        streams = array.array("i", [0, 1, 2])
        sent = connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        if sent < len(data):  # even an empty send fails once the answer is there and the other side closed
            connection.sendall(data[sent:])
        return receive(connection)


def main(address: str, program: str, arguments: list[str]) -> int:
    """Ask, print, and return the exit code."""
    message: dict[str, object] = {
        "program": program,
        "arguments": arguments,
        "folder": os.environ.get("PWD") if _is_here(os.environ.get("PWD")) else os.getcwd(),
        "environment": dict(os.environ),
    }
    try:
        answer = _ask(address, message)
        if answer.get("wants_input"):
            answer = _ask(address, {**message, "input": sys.stdin.read()})
    except (ConnectionError, FileNotFoundError):
        text, code = silence(program, arguments)
        answer = {"stderr": text, "code": code}
    sys.stdout.write(str(answer.get("stdout", "")))
    sys.stderr.write(str(answer.get("stderr", "")))
    return int(str(answer.get("code", 0)))


def _is_here(folder: str | None) -> bool:
    try:
        return folder is not None and os.path.samefile(folder, ".")
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
