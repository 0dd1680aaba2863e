"""What was submitted, in words that the job understands (``run.json``)."""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.runtime.files import known_fields, read_json, write_record

if TYPE_CHECKING:
    from helpers.runtime.run.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a run is, written before it is queued and never changed.

    Args:
        run_id: Our own id.
        name: Of the run, shown by the scheduler too.
        function: For people: ``package.module.function``.
        arguments: For people: each argument's ``repr``, shortened.
        cluster: ``"slurm"``, ``"local"`` or ``"inline"``.
        place: Slurm's ClusterName, or the machine's host name.
        python: The interpreter that runs it.
        sys_path: The caller's module search path.
        directory: The caller's working directory, and the job's.
        processes: Ranks in all.
        nodes: Machines.
        gpus: GPUs in all.
        time_min: Wall-clock limit in minutes; None for the partition's own.
        warning_s: Seconds before the limit at which the job is told.
        requeue: ``"auto"``, True or False.
        has_checkpoint_method: Whether the callable has submitit's ``checkpoint``.
        versions: What it was submitted with, such as ``{"python": "3.11.7"}``.
        resources: What was asked of the scheduler, for people.
        command: The program and its arguments; empty where a function is called.
        warning_signal: What tells the job that its time is nearly over; empty for nothing.
        settings: The keywords of the submission, as they were given: what a rerun is submitted with.
        after: Run folders of the jobs that must have succeeded before this one begins.
        total_time_min: Minutes that all attempts together may take; None for any.
        max_running: Of an array: how many elements may run at a time; None for any number.
        elements: Of an array: each element's arguments, for people.
        element: The number of this element, from 0; None for a run of its own.
        rerun_of: The run folder of which this is a rerun; empty for a call of its own.
        source: The project's code as it was submitted: the fields of a ``Source``; empty outside a project.
        share: ``"group"``: the group may read the run folder, but for what is private; else ``"private"``.
        raw_data: What a check of raw data at the start needs to know; empty where there is none, or none to check.
        variables: What the ranks have in their environment where nothing else has set it.
        own_packages: Whether the ranks' Python has packages of its own: ``sys_path`` then goes before its own path.
        container: The image that the ranks run in; empty for none.
        inside: The words that start a program in it; none where ``srun`` itself does.
        rank_words: The words that start a rank.
        mpi: How MPI's ranks are started: ``"pmix"``, ``"pmi2"`` or ``"mpirun"``; empty where they are none.
    """

    run_id: str
    name: str
    function: str
    arguments: list[str]
    cluster: str
    place: str
    python: str
    sys_path: list[str]
    directory: str
    processes: int
    nodes: int
    gpus: int
    time_min: int | None
    warning_s: int
    requeue: str | bool
    has_checkpoint_method: bool
    versions: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    warning_signal: str = "SIGUSR2"
    settings: dict[str, Any] = field(default_factory=dict)
    after: list[str] = field(default_factory=list)
    total_time_min: int | None = None
    max_running: int | None = None
    elements: list[list[str]] = field(default_factory=list)
    element: int | None = None
    source: dict[str, Any] = field(default_factory=dict)
    rerun_of: str = ""
    share: str = "private"
    raw_data: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    own_packages: bool = False
    container: str = ""
    inside: list[str] = field(default_factory=list)
    rank_words: list[str] = field(default_factory=list)
    mpi: str = ""

    @property
    def warning_number(self) -> int | None:
        """The number of the signal that tells the job that its time is nearly over; None for nothing."""
        return signal.Signals[self.warning_signal] if self.warning_signal else None

    @property
    def call(self) -> str:
        """What is run, for people."""
        if self.command:
            return shlex.join(self.command)
        return f"{self.function}({', '.join(self.arguments)})"


def write_description(run: RunFolder, description: Description) -> None:
    """Write what was submitted; a machine that loses power before the job is queued may lose it."""
    write_record(run.description, vars(description), durable=False)


def read_description(run: RunFolder) -> Description:
    """Return what was submitted.

    Raises:
        FileNotFoundError: If the folder is no run folder.
    """
    record = read_json(run.description)
    if record is None:
        raise FileNotFoundError(f"{run.path} is no run folder: it has no {run.description.name}.")
    return Description(**known_fields(Description, record))
