"""Be ``srun``: start a program once for each task of a job, and tell how they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.testing.controller import running, sbatch, variables
from helpers.testing.controller.hostlists import compress
from helpers.testing.controller.options import UsageError, read_count, read_words
from helpers.testing.controller.processes import send, send_group
from helpers.testing.controller.words import log_name, moment, read_wait_status, shell_code

if TYPE_CHECKING:
    from helpers.testing.controller.jobs import Job
    from helpers.testing.controller.server import Request, Server


@dataclass
class Task:
    """One process of a step."""

    rank: int
    node: int
    local: int
    pid: int | None = None
    status: int | None = None


@dataclass(eq=False)
class Step:
    """One ``srun`` in a job."""

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
        base = _exported(self.options, self.request.environment)
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
        running.settle(self.server, self.job)

    def lose_client(self) -> None:
        """End it because its ``srun`` is gone."""
        if self.ended is None and not self.is_ending:
            self.end("forcing job termination", number=signal.SIGTERM)


def _exported(options: dict[str, str], environment: dict[str, str]) -> dict[str, str]:
    words = options.get("export", environment.get("SLURM_EXPORT_ENV", "ALL")).split(",")
    if words[0] == "ALL":
        own = dict(environment)
    else:
        own = {name: environment[name] for name in [*words, "HOME", "PATH", "USER"] if name in environment}
    return own | dict(word.partition("=")[::2] for word in words if "=" in word)


def srun(server: Server, request: Request) -> None:
    """Start a step in the job that this is called in, or in a new one."""
    try:
        options, command = read_words("srun", request.arguments)
        if "version" in options:
            request.answer({"stdout": "slurm-wlm 22.05.8\n"})
            return
        if not command:
            raise UsageError("srun: fatal: No command given to execute.\n", code=1)
        number = options.get("jobid", request.environment.get("SLURM_JOB_ID"))
        if number is None:
            _allocate(server, request, options, command)
            return
        jobs = [job for job in server.cluster.find(number) if job.state == "RUNNING"]
        jobs = [job for job in jobs if str(job.number) == number] or jobs
        if not jobs:
            known = server.cluster.is_known(number)
            sentence = "Job/step already completing or completed" if known else "Invalid job id specified"
            raise UsageError(f"srun: error: Unable to confirm allocation for job {number}: {sentence}\n", code=1)
        _start(server, jobs[0], request, options, command)
    except UsageError as error:
        request.answer({"stderr": str(error).replace("sbatch:", "srun:"), "code": error.code})


def _start(server: Server, job: Job, request: Request, options: dict[str, str], command: list[str]) -> None:
    inherited = request.environment if request.environment.get("SLURM_JOB_ID") else {}
    asked = options.get("nodes", inherited.get("SLURM_NNODES", "")).partition("-")[0]
    nodes = read_count(asked) or len(job.nodes)
    wanted = options.get("ntasks", "" if "nodes" in options else inherited.get("SLURM_NTASKS", ""))
    per_node = read_count(options.get("ntasks-per-node", ""))
    tasks = read_count(wanted) or (per_node or 1) * nodes
    nodes = max(1, min(nodes, tasks, len(job.nodes)))
    cpus = read_count(options.get("cpus-per-task", "1")) or 1
    if tasks * cpus > job.demand.cpus_per_node * len(job.nodes) and "overcommit" not in options:
        raise UsageError(
            f"srun: error: Unable to create step for job {job.number}: More processors requested than permitted\n",
            code=1,
        )
    step = Step(
        server, job, job.next_step, request, command, options, job.nodes[:nodes], variables.split_tasks(tasks, nodes)
    )
    job.next_step += 1
    job.steps.append(step)
    request.when_gone = step.lose_client
    step.start()


def _allocate(server: Server, request: Request, options: dict[str, str], command: list[str]) -> None:
    message = {
        "arguments": ["--wrap=true", *_of_allocation(options)],
        "folder": request.folder,
        "environment": {name: v for name, v in request.environment.items() if not name.startswith("SBATCH_")},
    }
    jobs, answer = sbatch.submit(server.cluster, message)
    if not jobs:
        words = str(answer.get("stderr", "")).replace("sbatch:", "srun:")
        words = words.replace("Batch job submission failed", "Unable to allocate resources")
        request.answer({"stderr": words, "code": answer.get("code", 1)})
        return
    job = jobs[0]
    job.name = options.get("job-name") or os.path.basename(command[0])
    job.requeue = False
    job.launch = _launcher(server, job, request, options, command)
    request.when_gone = lambda: running.cancel(server, job)
    server.cluster.jobs.append(job)
    server.changed()
    server.settle_now()
    if job.state == "PENDING":
        request.write_error(f"srun: job {job.number} queued and waiting for resources\n")


def _launcher(
    server: Server, job: Job, request: Request, options: dict[str, str], command: list[str]
) -> Callable[[], None]:
    def launch() -> None:
        request.environment = {**request.environment, **variables.of_job(server.cluster, job)}
        steps_options = {name: value for name, value in options.items() if name not in {"nodes", "ntasks"}}
        step_options = {**steps_options, "ntasks": str(job.demand.tasks)}
        _start(server, job, request, step_options, command)

    return launch


def _of_allocation(options: dict[str, str]) -> list[str]:
    own = ("account", "partition", "qos", "time", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem",
           "mem-per-cpu", "gpus", "gpus-per-node", "gres", "constraint", "nodelist", "exclude", "reservation",
           "dependency", "begin", "comment")  # fmt: skip
    return [f"--{name}={options[name]}" for name in own if name in options] + [
        "--exclusive" for name in ("exclusive",) if name in options
    ]


def record_of(job: Job) -> dict[str, Any]:
    """Return what accounting keeps of an attempt that is over."""
    return {
        "state": job.state,
        "reason": job.waited_for,
        "wait_status": 0,
        "nodes": compress(job.nodes),
        "started": job.started,
        "ended": job.ended,
        "elapsed": job.elapsed_s(),
    }
