"""How the ranks reach each other: addresses, interfaces, and what is said about them."""

import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from helpers.runtime.rank import addresses
from helpers.training.ranks import interface, peers, rendezvous, transport
from helpers.training.ranks.interface import find_interface, use_interface

NCCL_LOG = """
node1:981:1267 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:981:1267 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:981:1267 [0] NCCL INFO Channel 00/0 : 3[3] -> 0[0] [receive] via NET/IB/3/GDRDMA
node1:981:1267 [0] NCCL INFO Connected all rings
"""

_MOMENT = timedelta(seconds=5)


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        monkeypatch.delenv(name, raising=False)


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_names_that_do_not_resolve_are_passed_over() -> None:
    """One such name takes torch's own client minutes."""
    server = rendezvous.open_store(one_node=True, timeout=_MOMENT)
    hosts = ("no-such-host.invalid", "127.0.0.1")
    address = rendezvous.Address(hosts=hosts, port=server.address.port, token=server.address.token)
    assert rendezvous.connect(address, timeout=_MOMENT).host == "127.0.0.1"
    nowhere = rendezvous.Address(hosts=hosts[:1], port=server.address.port, token=server.address.token)
    with pytest.raises(rendezvous.RendezvousFailed, match="none of its names resolves"):
        rendezvous.connect(nowhere, timeout=_MOMENT)


def test_ranks_meet_where_there_is_only_ipv6() -> None:
    """Some clusters have no other address on their fast network."""
    if not _has_ipv6():
        assert addresses.resolve(("::1",)) in ([], ["::1"])
        return
    server = rendezvous.open_store(one_node=True, timeout=_MOMENT)
    address = rendezvous.Address(hosts=("::1",), port=server.address.port, token=server.address.token)
    assert rendezvous.connect(address, timeout=_MOMENT).host == "::1"


def test_the_interface_is_that_of_the_route() -> None:
    """The first one that is up may be a container's bridge."""
    found = find_interface("127.0.0.1")
    assert found is not None
    assert found.address == "127.0.0.1"
    assert found.name in {name for _, name in socket.if_nameindex()}


def test_no_route_is_no_interface() -> None:
    """The library's own choice is then as good as any."""
    assert find_interface("no address") is None


@pytest.mark.parametrize(("backend", "sign"), [("gloo", ""), ("nccl", "=")])
def test_the_interface_is_named_to_the_backend_while_the_group_lasts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str, sign: str
) -> None:
    """NCCL takes a bare name for a prefix."""
    monkeypatch.setattr(interface, "_NCCL_FILES", (tmp_path / "nccl.conf",))
    variable = f"{backend.upper()}_SOCKET_IFNAME"
    name = use_interface(backend, "127.0.0.1")
    assert os.environ[variable] == sign + name
    peers.close_all()
    assert variable not in os.environ


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_variable_that_the_user_has_set_is_left_alone(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Who sets it knows the cluster."""
    monkeypatch.setenv(f"{backend.upper()}_SOCKET_IFNAME", "ib7")
    assert use_interface(backend, "127.0.0.1") == "ib7"
    peers.close_all()
    assert os.environ[f"{backend.upper()}_SOCKET_IFNAME"] == "ib7"


def test_what_an_administrator_has_set_for_nccl_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A variable would go before /etc/nccl.conf."""
    (tmp_path / "nccl.conf").write_text("NCCL_SOCKET_IFNAME=ib\n")
    monkeypatch.setattr(interface, "_NCCL_FILES", (tmp_path / "nccl.conf",))
    assert use_interface("nccl", "127.0.0.1") == ""
    assert "NCCL_SOCKET_IFNAME" not in os.environ


def test_what_nccl_goes_over_is_read_from_its_log() -> None:
    """The word NCCL alone says nothing: over Ethernet it is a hundred times slower."""
    assert transport.read_transports(NCCL_LOG) == ["P2P/CUMEM", "NET/IB"]
    assert transport.read_transports("Channel 00 : 1[1] -> 0[0] via SHM/direct/direct") == ["SHM/direct"]
    assert transport.read_transports("") == []


@pytest.fixture
def not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not entered ``distributed`` yet."""
    monkeypatch.setattr(transport, "_said", False)


@pytest.mark.usefixtures("not_said")
def test_nccl_is_listened_to_and_its_file_removed() -> None:
    """No variable and no file stays, also where the ranks cannot be connected."""
    with pytest.raises(RuntimeError, match="no connection"), transport.NcclLog(listen=True) as log:  # noqa: PT012
        file = Path(os.environ["NCCL_DEBUG_FILE"])
        assert os.environ["NCCL_DEBUG"] == "INFO"
        file.write_text(NCCL_LOG)
        assert log.read() == NCCL_LOG
        raise RuntimeError("no connection")
    assert not file.exists()
    assert not any(name.startswith("NCCL_DEBUG") for name in os.environ)


def test_nccl_is_listened_to_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second group says nothing new; its variables would reach what the process starts later."""
    monkeypatch.setattr(transport, "_said", True)
    with transport.NcclLog(listen=True) as log:
        assert not any(name.startswith("NCCL_DEBUG") for name in os.environ)
        assert log.read() == ""


@pytest.mark.usefixtures("not_said")
@pytest.mark.parametrize("name", ["NCCL_DEBUG", "NCCL_DEBUG_FILE"])
def test_who_reads_nccl_by_himself_goes_on_to(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """His log must not vanish into ours."""
    monkeypatch.setenv(name, "WARN")
    with transport.NcclLog(listen=True) as log:
        assert log.read() == ""
    assert os.environ[name] == "WARN"


def test_the_bandwidth_is_that_of_nccl_tests() -> None:
    """An all-reduce of 1 GB in 1 s over 4 ranks moves 1.5 GB through each link."""
    assert transport.bus_bandwidth(10**9, 1.0, 4) == 1.5


@pytest.mark.parametrize("value", ["0", "false"])
def test_the_report_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Without a process group a measurement would fail."""
    monkeypatch.setenv("HELPERS_REPORT_NETWORK", value)
    monkeypatch.setattr(transport, "_said", False)
    transport.report_network(torch.device("cpu"), nodes=1, interface="lo", log=transport.NcclLog(listen=False))
    assert transport._said is False
