"""Where the libraries that are not ours let the ranks meet."""

import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers import HelpersError, export_tf_config
from helpers.runtime.rank.meeting_point import hold_meeting_point, meeting_point


def of(processes: int, nodes: int = 1) -> Any:
    return SimpleNamespace(processes=processes, nodes=nodes)


def test_one_process_meets_nobody() -> None:
    """With MASTER_ADDR some libraries would take it for one of several."""
    assert meeting_point(of(1)) == {}


def test_on_one_node_they_meet_at_home() -> None:
    """A name that does not resolve would hang for minutes."""
    assert meeting_point(of(2))["MASTER_ADDR"] == "127.0.0.1"
    assert meeting_point(of(4, 2))["MASTER_ADDR"].count(".") == 3


def test_a_held_port_is_free_for_a_library_that_listens_there() -> None:
    """All of them set SO_REUSEADDR; the kernel gives the port to nobody else."""
    port = meeting_point(of(2))["MASTER_PORT"]
    hold_meeting_point(0, {"MASTER_PORT": port})
    with socket.socket() as blunt, pytest.raises(OSError, match="in use"):
        blunt.bind(("127.0.0.1", int(port)))
    with socket.create_server(("127.0.0.1", int(port))) as server:  # which sets it
        assert server.getsockname()[1] == int(port)


def test_tensorflow_is_told_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 writes the list that all read, the last to come included."""
    (tmp_path / "attempts" / "0").mkdir(parents=True)
    (tmp_path / "attempts" / "0" / "worker-1.json").write_text('"10.0.0.2:4711"')
    for name, value in {"HELPERS_RUN": str(tmp_path), "HELPERS_ATTEMPT": "0", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TF_CONFIG", "theirs")
    export_tf_config(timeout_s=0)  # is left alone
    monkeypatch.delenv("TF_CONFIG")
    export_tf_config(timeout_s=60)
    config = json.loads(os.environ.pop("TF_CONFIG"))
    assert config["task"] == {"type": "worker", "index": 0}
    assert config["cluster"]["worker"][1] == "10.0.0.2:4711"


def test_an_ipv6_address_of_a_worker_is_in_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's gRPC would take its last part for the port."""
    (tmp_path / "attempts" / "0").mkdir(parents=True)
    (tmp_path / "attempts" / "0" / "worker-1.json").write_text('"[fd00::2]:4711"')
    names = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "HELPERS_ATTEMPT": "0"}
    for name, value in {"HELPERS_RUN": str(tmp_path), **names}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr("helpers.runtime.rank.tensorflow.own_address", lambda: "fd00::1")
    export_tf_config(timeout_s=60)
    own, _ = json.loads(os.environ.pop("TF_CONFIG"))["cluster"]["worker"]
    assert own.startswith("[fd00::1]:")


def test_a_worker_that_does_not_come_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better than a hang in TensorFlow."""
    (tmp_path / "attempts" / "0").mkdir(parents=True)
    for name, value in {"HELPERS_RUN": str(tmp_path), "HELPERS_ATTEMPT": "0", "RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(HelpersError, match=r"workers\.json in time"):
        export_tf_config(timeout_s=0.1)
