"""Read options as Slurm's commands do: long ones, short ones, ``#SBATCH`` lines, ``SBATCH_`` variables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

NONE, ONE, MAYBE = 0, 1, 2

_SHORT = {
    "A": "account", "a": "array", "b": "begin", "c": "cpus-per-task", "C": "constraint", "D": "chdir",
    "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "h": "help", "i": "input",
    "J": "job-name", "k": "no-kill", "K": "kill-on-bad-exit", "L": "licenses", "l": "label", "M": "clusters",
    "m": "distribution", "N": "nodes", "n": "ntasks", "o": "output", "O": "overcommit", "p": "partition",
    "Q": "quiet", "q": "qos", "S": "core-spec", "s": "oversubscribe", "t": "time", "u": "unbuffered",
    "V": "version", "v": "verbose", "W": "wait", "w": "nodelist", "x": "exclude", "X": "disable-status",
}  # fmt: skip
_WITH_ONE = """
    account acctg-freq array batch bb bbf begin cluster-constraint clusters comment constraint container core-spec
    cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task chdir deadline delay-boot dependency distribution
    error exclude export export-file extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
    gpus-per-task gres gres-flags hint input job-name jobid kill-on-invalid-dep licenses mail-type mail-user mcs-label
    mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi network nodefile nodelist nodes ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition power prefer priority profile qos
    reservation signal sockets-per-node switches task-epilog task-prolog thread-spec threads-per-core time time-min
    tmp tres-per-task uid wait-all-nodes wckey wrap
""".split()
_WITH_NONE = """
    contiguous disable-status exact help hold ignore-pbs label no-kill no-requeue overcommit overlap oversubscribe
    parsable pty quiet reboot requeue spread-job test-only unbuffered usage use-min-nodes verbose version
    whole
""".split()
_WITH_MAYBE = "exclusive get-user-env immediate kill-on-bad-exit nice propagate wait".split()
TABLE = {
    **dict.fromkeys(_WITH_ONE, ONE),
    **dict.fromkeys(_WITH_NONE, NONE),
    **dict.fromkeys(_WITH_MAYBE, MAYBE),
}

_VARIABLES = {
    "ACCOUNT": "account", "ARRAY_INX": "array", "CONSTRAINT": "constraint", "CPUS_PER_GPU": "cpus-per-gpu",
    "DISTRIBUTION": "distribution", "ERROR": "error", "EXCLUSIVE": "exclusive", "EXPORT": "export", "GPUS": "gpus",
    "GPUS_PER_NODE": "gpus-per-node", "GPUS_PER_TASK": "gpus-per-task", "GRES": "gres", "INPUT": "input",
    "JOB_NAME": "job-name", "MEM_PER_CPU": "mem-per-cpu", "MEM_PER_GPU": "mem-per-gpu", "MEM_PER_NODE": "mem",
    "NO_REQUEUE": "no-requeue", "OPEN_MODE": "open-mode", "OUTPUT": "output", "PARTITION": "partition", "QOS": "qos",
    "REQUEUE": "requeue", "RESERVATION": "reservation", "SIGNAL": "signal", "TIMELIMIT": "time", "WAIT": "wait",
}  # fmt: skip


class UsageError(Exception):
    """The words of a command are wrong; its message is what Slurm prints."""

    def __init__(self, message: str, code: int = 255) -> None:
        super().__init__(message)
        self.code = code


def read_words(
    program: str,
    arguments: Sequence[str],
    *,
    table: Mapping[str, int] = TABLE,
    short: Mapping[str, str] = _SHORT,
    stops_at_first: bool = True,
) -> tuple[dict[str, str], list[str]]:
    """Split a command line into options and what follows.

    Raises:
        UsageError: For an option that there is not.
    """
    options: dict[str, str] = {}
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += queue
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _whole(program, name, table)
            if not equals and table[name] == ONE:
                value = _next(program, queue, name)
            options[name] = value
        elif word.startswith("-") and len(word) > 1:
            _read_short(program, word[1:], queue, options, table, short)
        else:
            rest.append(word)
            if stops_at_first:
                rest += queue
                break
    return options, rest


def _read_short(
    program: str,
    letters: str,
    queue: list[str],
    options: dict[str, str],
    table: Mapping[str, int],
    short: Mapping[str, str],
) -> None:
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in short:
            raise UsageError(f"{program}: invalid option -- '{letter}'\n{_try_help(program)}")
        name = short[letter]
        if table[name] == ONE:
            options[name] = letters.removeprefix("=") or _next(program, queue, name)
            return
        if table[name] == MAYBE:
            options[name] = letters
            return
        options[name] = ""


def _next(program: str, queue: list[str], name: str) -> str:
    if not queue:
        raise UsageError(f"{program}: option '--{name}' requires an argument\n{_try_help(program)}")
    return queue.pop(0)


def _whole(program: str, name: str, table: Mapping[str, int]) -> str:
    if name in table:
        return name
    near = [known for known in table if known.startswith(name)] if name else []
    if len(near) != 1:
        raise UsageError(f"{program}: unrecognized option '--{name}'\n{_try_help(program)}")
    return near[0]


def _try_help(program: str) -> str:
    return f'Try "{program} --help" for more information\n'


def read_script(script: str) -> dict[str, str]:
    """Return the options in a script's ``#SBATCH`` lines, which end with the first line that is a command."""
    found: list[str] = []
    for line in script.splitlines():
        if line.startswith("#SBATCH"):
            found += shlex.split(line.removeprefix("#SBATCH"), comments=True)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return read_words("sbatch", found)[0]


def read_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options in ``SBATCH_…``."""
    return {
        option: "" if TABLE[option] == NONE else environment[f"SBATCH_{name}"]
        for name, option in _VARIABLES.items()
        if f"SBATCH_{name}" in environment
    }


def read_count(text: str) -> int | None:
    """Read a number, perhaps with ``k`` behind it; None where it is none."""
    match = re.fullmatch(r"(\d+)(k?)", text, re.IGNORECASE)
    return None if match is None else int(match[1]) * (1024 if match[2] else 1)
