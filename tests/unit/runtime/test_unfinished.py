"""What must not be cut short is waited for at the end of the process, once."""

import atexit

from helpers.runtime import unfinished


def test_saving_again_and_again_leaves_one_entry_at_exit() -> None:
    """One for each save was kept until the process ended."""
    unfinished.add("first", lambda: None)
    unfinished.discard("first")
    before = atexit._ncallbacks()  # type: ignore[attr-defined]
    for number in range(100):
        unfinished.add(number, lambda: None)
        unfinished.discard(number)
    assert atexit._ncallbacks() == before  # type: ignore[attr-defined]
