"""What may run on a login node."""

from types import SimpleNamespace
from typing import Any

import pytest

from helpers import InvalidRequest, submit
from helpers.submission.clusters import login_node
from tests.unit.submission import functions


@pytest.fixture(autouse=True)
def _login_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_node, "_belongs_to_a_cluster", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.delenv("HELPERS_ALLOW_LOCAL", raising=False)


@pytest.mark.parametrize(
    ("asked", "named"), [({"processes": 2}, "2 processes"), ({"gpus": 1}, "a GPU"), ({"time": "8h"}, "480 min")]
)
def test_work_is_refused_with_the_way_to_submit_it(asked: dict[str, Any], named: str) -> None:
    """Everybody else on that machine would wait for it."""
    with pytest.raises(InvalidRequest, match=rf'{named}(.|\n)*cluster="slurm" submits it'):
        submit(functions.add, 1, cluster="local", **asked)


def test_a_small_thing_may_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A look at the data; said, so that it stays one."""
    assert submit(functions.add, 1, time="30min", cluster="local").result(240) == 1
    assert "belongs to a cluster: keep this short" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"), [("HELPERS_ALLOW_LOCAL", "1"), ("HELPERS_ALLOW_LOCAL", "True"), ("SLURM_JOB_ID", "7")]
)
def test_in_a_job_or_on_a_machine_of_ones_own_all_may_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    """A workstation may be a whole cluster."""
    monkeypatch.setenv(name, value)
    login_node.check_login_node(SimpleNamespace(processes=8, gpus=SimpleNamespace(count=8), time_min=None))  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
