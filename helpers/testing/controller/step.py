"""One ``srun`` in a job: the processes of its tasks, their logs, and what is said of their end."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import ending, variables
from helpers.testing.controller.export import exported_to_step
from helpers.testing.controller.notation.exit_codes import read_wait_status, shell_code
from helpers.testing.controller.notation.log_names import log_name
from helpers.testing.controller.notation.times import moment
from helpers.testing.controller.processes import send, send_group

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.request import Request
    from helpers.testing.controller.server import Server


@dataclass
class Task:
    """One process of a step.

    Args:
        rank: Among all of the step.
        node: The number of its node in the step.
        local: Its number on that node.
        pid: None before it has started.
        status: What ``wait`` returned; None while it runs.
    """

    rank: int
    node: int
    local: int
    pid: int | None = None
    status: int | None = None


@dataclass(eq=False)
class Step:
    """One ``srun`` in a job.

    Args:
        server: The whole.
        job: What it is a step of.
        number: In the job, from 0.
        request: The ``srun`` that is being answered.
        command: What each task runs.
        options: Those of ``srun``, by their long names.
        nodes: Where it runs.
        counts: How many tasks each node has.
        tasks: In the order of ranks.
        is_ending: Whether its tasks have been told to end.
        started: In seconds since the epoch.
        ended: The same; None while it runs.
        mark: The state that accounting shows in place of its own.
    """

    server: Server
    job: Job
    number: int
    request: Request
    command: list[str]
    options: dict[str, str]
    nodes: list[str]
    counts: list[int]
    tasks: list[Task] = field(default_factory=list)
    is_ending: bool = False
    started: float = field(default_factory=time.time)
    ended: float | None = None
    mark: str = ""

    @property
    def id(self) -> str:
        """Its id: ``4711.0``."""
        return f"{self.job.number}.{self.number}"

    @property
    def code(self) -> int:
        """The exit code of ``srun``."""
        return max((shell_code(task.status) for task in self.tasks if task.status is not None), default=0)

    def say(self, text: str, *, who: str = "slurmstepd: error: ") -> None:
        """Write a line where ``srun`` writes its own."""
        self.request.write_error(f"{who}{text}\n")

    def announce_end(self, now: str, due: str, *, wait_s: int) -> None:
        """Say that Slurm ends this step."""
        self.say(f"Job step aborted: Waiting up to {wait_s} seconds for job step to finish.", who="srun: ")
        self.say(f"*** STEP {self.id} ON {self.nodes[0]} CANCELLED AT {now}{due} ***")

    def send(self, number: int) -> None:
        """Send a signal to its tasks, and to none of their children."""
        for task in self.tasks:
            if task.pid is not None and task.status is None:
                send(task.pid, number)

    def start(self) -> None:
        """Start all tasks."""
        ranks = iter(range(sum(self.counts)))
        for node, count in enumerate(self.counts):
            self.tasks += [Task(rank=next(ranks), node=node, local=local) for local in range(count)]
        shared = [self._open("output", 1, None), self._open("error", 2, None)]
        for task in self.tasks:
            self._start_task(task, shared)
        for stream in {*shared} - set(self.request.streams):
            os.close(stream)
        self._end_if_over()

    def _start_task(self, task: Task, shared: list[int]) -> None:
        own = self._values(task)
        base = exported_to_step(self.options, self.request.environment)
        environment = variables.of_task(
            self.server.cluster, self.job, base, self.counts, self.nodes, step=self.number, rank=task.rank,
            node_number=task.node, local=task.local,
        )  # fmt: skip
        streams = [self._open(kind, fd, own) if self._is_per_task(kind) else shared[fd - 1]
                   for kind, fd in (("output", 1), ("error", 2))]  # fmt: skip
        with open(os.devnull) as nothing:
            stdin = self.request.streams[0] if task.rank == 0 else nothing.fileno()
            try:
                task.pid = self.server.processes.start(
                    self.command,
                    folder=os.path.join(self.request.folder, self.options.get("chdir", "")),
                    environment=environment,
                    streams=(stdin, streams[0], streams[1]),
                    when_ended=lambda status: self._task_ended(task, status),
                )
            except OSError as error:
                self.say(f"execve(): {self.command[0]}: {os.strerror(error.errno or 2)}")
                self._note(task, (error.errno or 2) << 8)
            else:
                self.job.sessions.add(task.pid)
        for stream in {*streams} - {*shared} - set(self.request.streams):
            os.close(stream)

    def _pattern(self, kind: str) -> str | None:
        return self.options.get(kind, self.options.get("output") if kind == "error" else None)

    def _is_per_task(self, kind: str) -> bool:
        pattern = self._pattern(kind) or ""
        return "%" in pattern and log_name(pattern, self._values(self.tasks[0])) != log_name(
            pattern, {**self._values(self.tasks[0]), "t": "x", "n": "x", "N": "x"}
        )

    def _values(self, task: Task) -> dict[str, Any]:
        return {
            "j": self.job.number, "J": self.id, "A": self.job.array or self.job.number, "a": self.job.task,
            "s": self.number, "t": task.rank, "n": task.node, "N": self.nodes[task.node], "x": self.job.name,
            "u": self.job.user,
        }  # fmt: skip

    def _open(self, kind: str, inherited: int, values: dict[str, Any] | None) -> int:
        pattern = self._pattern(kind)
        if pattern is None or pattern == "all":
            return self.request.streams[inherited]
        if values is None and self._is_per_task(kind):
            return self.request.streams[inherited]
        if pattern == "none":
            return os.open(os.devnull, os.O_WRONLY)
        name = log_name(pattern, values or self._values(self.tasks[0]))
        mode = os.O_APPEND if self.options.get("open-mode", "t").startswith("a") else os.O_TRUNC
        return os.open(os.path.join(self.request.folder, name), os.O_WRONLY | os.O_CREAT | mode, 0o644)

    def _task_ended(self, task: Task, status: int) -> None:
        self._note(task, status)
        self._end_if_over()

    def _note(self, task: Task, status: int) -> None:
        task.status = status
        code, number = read_wait_status(status)
        if not status:
            return
        words = f"Exited with exit code {code}" if code else str(signal.strsignal(number))
        if status & 0x80:
            words += " (core dumped)"
        self.say(f"error: {self.nodes[task.node]}: task {task.rank}: {words}", who="srun: ")
        if self._kills_on_bad_exit() and not self.is_ending and self.job.state == "RUNNING":
            self.end(f"launch/slurm: _step_signal: Terminating StepId={self.id}", number=number)

    def _kills_on_bad_exit(self) -> bool:
        asked = self.options.get("kill-on-bad-exit", self.request.environment.get("SLURM_KILL_BAD_EXIT", "0"))
        return asked != "0"

    def end(self, words: str, *, number: int) -> None:
        """End the tasks that still run."""
        self.is_ending = True
        if all(task.status is not None for task in self.tasks):
            return
        self.say(words, who="srun: ")
        if number:
            self.say(f"*** STEP {self.id} ON {self.nodes[0]} CANCELLED AT {moment(time.time())} ***")
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        self.server.timers.after(self.server.cluster.settings.kill_wait_s, lambda: self.send(signal.SIGKILL))

    def _end_if_over(self) -> None:
        if self.ended is not None or any(task.status is None for task in self.tasks):
            return
        self.ended = time.time()
        for task in self.tasks:
            if task.pid is not None:
                send_group(task.pid, signal.SIGKILL)
        if self in self.job.steps:
            self.job.steps.remove(self)
        self.job.ended_steps.append(self)
        if self.job.launch is not None:
            self.job.wait_status = self.code << 8
            self.job.launch = None if self.job.ending else self.job.launch
        self.request.answer({"code": self.code})
        ending.settle(self.server, self.job)

    def lose_client(self) -> None:
        """End it because its ``srun`` is gone."""
        if self.ended is None and not self.is_ending:
            self.end("forcing job termination", number=signal.SIGTERM)
