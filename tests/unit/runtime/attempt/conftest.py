"""An attempt of the run."""

import pytest

from helpers.runtime.run.folder import RunFolder


@pytest.fixture
def begun(run: RunFolder) -> None:
    """An attempt that has called its function; a test module asks for it with ``usefixtures``."""
    run.begin_attempt()
    run.attempt(0).started(0).touch()
    run.batch_log.write_text("[helpers] attempt 0, job 7, 2030-01-01 00:00:00\n")
