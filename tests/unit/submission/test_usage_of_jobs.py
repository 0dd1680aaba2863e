"""Each job says at its end what it had, what it used, and what to ask for next time."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers import Executor, grid, submit_array, submit_command
from tests.unit.submission import functions

PATIENCE_S = 240
LINES = ("] asked: ", "] used: ", "] next time: ")


@pytest.mark.usefixtures("project")
class TestJobs:
    def test_each_kind_of_job_says_it_once(self) -> None:
        """A function in two processes, a program, an element of an array."""
        jobs: list[Any] = [
            Executor(cluster="local", time="2h", processes=2).submit(functions.add, 1, b=2),
            submit_command(["true"], cluster="local", time="2h"),
            *submit_array(functions.add, grid(a=[1], b=[2]), cluster="local", time="2h"),
        ]
        for job in jobs:
            job.result(PATIENCE_S)
        logs = [job.logs() for job in jobs]
        assert [[log.count(line) for line in LINES] for log in logs] == [[1, 1, 1]] * 3
        assert all('] next time: time="10min"' in log for log in logs)
        assert "asked: 2 processes · 2h" in logs[0]
        assert all(json.loads((job.folder / "usage.json").read_text())["used"]["cpus"] > 0 for job in jobs)

    def test_show_tells_it_too(self) -> None:
        """Whoever asks what a run was finds what it took."""
        from helpers.cli.main import app

        job = Executor(cluster="local").submit(functions.add, 1, b=2)
        job.result(PATIENCE_S)
        shown = CliRunner().invoke(app, ["show", str(job.folder)]).output
        record = json.loads(CliRunner().invoke(app, ["show", str(job.folder), "--json"]).output)
        assert "\nasked: 1 process\nused: " in shown
        assert record["usage"]["attempt"] == 0
