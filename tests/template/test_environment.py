"""The environment files of a baked project are what `helpers env sync` makes of its list."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.template.conftest import Bake, Baker, Home

pytestmark = pytest.mark.template


def sync_check(project: Path, home: Home) -> subprocess.CompletedProcess[str]:
    return sync(project, home, "--check")


def sync(project: Path, home: Home, option: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "helpers.cli", "env", "sync", option],
        cwd=project, env=home.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_files_agree_with_the_list_from_the_first_day(default_bake: Bake, home: Home) -> None:
    """The hook before the first commit looks at nothing else."""
    done = sync_check(default_bake.project, home)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_files_agree_for_an_odd_name(bake: Baker, home: Home) -> None:
    """A name is data in YAML, too: this one would be read as a number."""
    baked = bake(project_name="1e3", project_slug="1e3", package_name="net")
    assert (sync_check(baked.project, home).stdout, baked.code) == ("", 0)
    assert yaml.safe_load((baked.project / "environment.yml").read_text())["name"] == "1e3"


def test_a_lock_is_made_from_what_is_installed_and_held_to_the_list(bake: Baker, home: Home) -> None:
    """A fresh project has none, since nothing is installed; from then on the hook looks at it, too."""
    project = bake().project
    assert not (project / "requirements.lock").exists()
    made = sync(project, home, "--lock")
    assert (made.returncode, made.stdout) == (0, "written: requirements.lock\n"), made.stderr
    assert sync_check(project, home).returncode == 0
    hooks = yaml.safe_load((project / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    (hook,) = (hook for hook in hooks if hook["entry"] == "helpers env sync --check")
    assert re.search(hook["files"], "requirements.lock")
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"tqdm>=4.66"', '"tqdm>=99"'))
    assert "not tqdm>=99\n" in sync_check(project, home).stdout
