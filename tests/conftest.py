"""Let Ctrl-C end what the tests start, also where the suite runs in the background: a shell has it ignored there."""

import signal


def pytest_configure() -> None:
    """Take the signal up again; what is started inherits that it is ignored, not who handles it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
