"""The batch script holds signals back while Python starts, where the node's ``env`` can."""

import os
import subprocess
from pathlib import Path

import pytest

from helpers.submission.clusters.script import _HOLD


@pytest.mark.parametrize(("env", "hold"), [("exit 0", "env --block-signal=TERM,USR2"), ("exit 125", "")])
def test_an_old_env_is_left_out(tmp_path: Path, env: str, hold: str) -> None:
    """Coreutils 8.30, of Debian 10 and RHEL 8, do not know the option; the ranks are to start there too."""
    program = tmp_path / "env"
    program.write_text(f"#!/bin/sh\n{env}\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", f'{_HOLD}\nprintf %s "$hold"'],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (hold, "")
