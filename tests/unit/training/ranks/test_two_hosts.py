"""Ranks on two hosts with addresses of their own, which no two nodes of the test cluster have."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.training.hosts import LINK, Host, two_hosts, why_unavailable

Hosts = tuple[Host, Host]

ROOT = Path(__file__).parents[4]
OWN_ADDRESS = "from helpers.runtime.rank.meeting_point import own_address; print(own_address())"


@pytest.fixture(scope="module")
def _possible() -> None:
    """Skip where namespaces cannot be made; in CI, where the tests of Slurm must run, that is a failure."""
    if reason := why_unavailable():
        if os.environ.get("HELPERS_REQUIRE_SLURM") == "1":
            pytest.fail(f"HELPERS_REQUIRE_SLURM=1, but: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def ipv4(_possible: None, tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts whose names resolve nowhere but at home, and there to a loopback address."""
    with two_hosts(tmp_path, ("10.88.7.1/24", "10.88.7.2/24")) as hosts:
        yield hosts


@pytest.fixture
def ipv6(_possible: None, tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts that have IPv6 only, without a default route."""
    with two_hosts(tmp_path, ("fd88:7::1/64", "fd88:7::2/64")) as hosts:
        yield hosts


def _results(run: Any) -> list[dict[str, Any]]:
    logs = [(run.path / "logs" / f"0-{rank}.log").read_text() for rank in range(run.world_size)]
    return [json.loads(log.split("RESULT ")[1]) for log in logs]


def test_ranks_of_two_hosts_meet_by_the_link_that_joins_them(ipv4: Hosts, start_run: Callable[..., Any]) -> None:
    """Neither the name of rank 0 nor its default route leads there, and its neighbour reaches it by any address."""
    run = start_run("ipv4", 4)
    assert run.run("meet.py", "meet", hosts=ipv4) == [0] * 4, run.logs()
    assert [(one["mean"], one["sum"], one["left_over"]) for one in _results(run)] == [(1.5, 6.0, False)] * 4
    assert f"helpers: 4 processes on 2 nodes, gloo over {LINK}: " in run.logs()


def test_ranks_of_two_hosts_meet_where_there_is_only_ipv6(ipv6: Hosts, start_run: Callable[..., Any]) -> None:
    """A checkpoint is saved by both, too: each thread's client finds rank 0 anew."""
    run = start_run("ipv6", 2)
    assert run.run("meet.py", "keep", hosts=ipv6) == [0, 0], run.logs()
    assert _results(run) == [{"n": 5}, {"n": 5}]
    assert f"helpers: 2 processes on 2 nodes, gloo over {LINK}: " in run.logs()


def test_a_name_that_is_a_loopback_address_at_home_serves_torchruns_variables(
    ipv4: Hosts, start_run: Callable[..., Any]
) -> None:
    """Everybody writes MASTER_ADDR=$(hostname), and Debian gives that name 127.0.1.1."""
    one, other = ipv4
    other.knows(**{one.name: one.address})
    run = start_run("torchrun", 2)
    variables = {"HELPERS_RUN": "", "MASTER_ADDR": one.name, "MASTER_PORT": "29511"}
    assert run.run("meet.py", "keep", hosts=ipv4, **variables) == [0, 0], run.logs()
    assert _results(run) == [{"n": 5}, {"n": 5}]
    assert f"helpers: 2 processes on 2 nodes, gloo over {LINK}: " in run.logs()


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_meeting_point_for_other_libraries_is_on_the_route_to_another_node(
    family: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """JAX, Lightning and torchrun get one address: by a loopback one, or a bridge's, each node waits for itself."""
    one, other = request.getfixturevalue(family)
    one.knows(**{one.name: "127.0.1.1", other.name: other.address})
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        f"#!/bin/sh\n[ \"$*\" = 'show hostnames node[0-1]' ] && printf '{one.name}\\n{other.name}\\n'\n"
    )
    scontrol.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_NODELIST": "node[0-1]",
    }
    told = subprocess.run(
        one.command(sys.executable, "-c", OWN_ADDRESS), env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == one.address
