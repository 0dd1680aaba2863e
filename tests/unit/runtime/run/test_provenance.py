"""What a run ran with is written down."""

import json
from collections.abc import Callable

from helpers.runtime.run.description import Description
from helpers.runtime.run.folder import RunFolder
from helpers.runtime.run.provenance import record_provenance


def test_new_code_is_named(run: RunFolder, described: Callable[..., Description]) -> None:
    """Code that is in no commit cannot be found again by the commit."""
    source = {"root": "/code", "snapshot": "/runs/copy", "commit": "abc", "edited": True, "untracked": ["idea.py"]}
    record_provenance(run, described(source=source))
    project = json.loads(run.provenance.read_text())["project"]
    assert (project["edited"], project["untracked"]) == (True, ["idea.py"])
