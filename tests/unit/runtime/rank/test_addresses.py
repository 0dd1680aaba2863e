"""By which addresses a machine may be reached; two that differ are made in `test_two_hosts.py`."""

import socket
from pathlib import Path

import pytest

from helpers.runtime.rank import addresses


def test_ipv4_is_tried_before_ipv6_and_loopback_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that has both often has an IPv6 address that leads nowhere; 127.0.1.1 is every machine's own."""
    known = {
        socket.AF_INET: ["127.0.1.1", "10.0.0.3"],
        socket.AF_INET6: ["::1", "fe80::1", "fd00::3"],
    }
    answer = lambda _host, _port, family: [(family, 1, 6, "", (address, 0)) for address in known[family]]  # noqa: E731
    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert addresses.resolve(["node1"]) == ["10.0.0.3", "fd00::3", "127.0.1.1", "::1"]


def test_the_route_to_another_node_of_the_job_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own name, and its route out, may lead to a network that the nodes do not share."""
    routes = {"10.1.0.2": "10.1.0.1", "10.255.255.255": "172.17.0.1"}
    names = {"node1": ["127.0.1.1", "192.168.0.1"], "node2": ["10.1.0.2"]}
    monkeypatch.setattr(addresses, "nodes_of_job", lambda: ["node1", "node2"])
    monkeypatch.setattr(addresses, "resolve", lambda hosts: [one for host in hosts for one in names[host]])
    monkeypatch.setattr(addresses, "source_address", routes.get)
    monkeypatch.setattr(addresses, "_of_interfaces", lambda: ["127.0.0.1", "172.17.0.1", "fd00::1"])
    monkeypatch.setattr("platform.node", lambda: "node1")
    assert addresses.own_addresses() == ["10.1.0.1", "192.168.0.1", "172.17.0.1", "fd00::1"]


def test_no_address_of_this_machine_is_a_loopback_one() -> None:
    """On another node it is that node's own."""
    assert not any(map(addresses.is_loopback, addresses.own_addresses()))
    assert addresses.source_address("127.0.0.1") == "127.0.0.1"
    assert addresses.source_address("no address") is None


def test_the_nodes_of_a_job_are_known_where_scontrol_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container it is not; outside a job there are none."""
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    assert addresses.nodes_of_job() == []
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[1-2]")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert addresses.nodes_of_job() == []
    (tmp_path / "scontrol").write_text('#!/bin/sh\necho "$3" gpu1\necho gpu2\n')
    (tmp_path / "scontrol").chmod(0o755)
    assert addresses.nodes_of_job() == ["gpu[1-2]", "gpu1", "gpu2"]
