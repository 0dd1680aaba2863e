"""A user's project."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.submission.source import snapshot
from tests.unit.submission.source.projects import git, write


@pytest.fixture
def code(project: Path) -> Iterator[Path]:
    """A project in git, with data, an ignored environment, and settings that are secret."""
    folder = project / "digits"
    write(
        folder,
        {
            "pyproject.toml": "[tool.helpers]\n",
            ".gitignore": "/runs/\n/.venv/\n__pycache__/\n/results/\n",
            "src/digits/__init__.py": "",
            "src/digits/train.py": "def train():\n    return 'old'\n",
            "src/digits/words.yaml": "lr: 1\n",
            "data/raw/table.csv": "1,2\n",
            "reports/.gitkeep": "",
            "results/out.txt": "1\n",
            ".venv/lib/site-packages/other.py": "",
            ".env": "TOKEN=1\n",
        },
    )
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", ":!.env")
    git(folder, "commit", "-q", "-m", "begin")
    snapshot._known.clear()
    snapshot._said.clear()
    yield folder
    snapshot._known.clear()
