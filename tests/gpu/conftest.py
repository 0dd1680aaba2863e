"""Start the processes of a run as the unit tests of training do."""

from tests.unit.training.conftest import start_run

__all__ = ["start_run"]
