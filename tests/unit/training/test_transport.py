"""What is said of the network is read by people."""

import pytest

from helpers.training.ranks.transport import two_digits


@pytest.mark.parametrize(
    ("value", "text"), [(183.2, "180"), (0.3514, "0.35"), (5.0, "5"), (12.34, "12"), (1234, "1200")]
)
def test_a_figure_is_never_a_power_of_ten(value: float, text: str) -> None:
    """``1.8e+02 ms`` stood in each log."""
    assert two_digits(value) == text
