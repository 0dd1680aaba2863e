"""How late a request to stop is seen: this process sends itself signals, from a thread of its own."""

from __future__ import annotations

import os
import signal
import time

from helpers.runtime import stop

_UNSEEN_S = 10.0  # longer than any delay that counts


def measure_delays(count: int) -> list[float]:
    """Ask this process ``count`` times to stop; return how many seconds passed each time until that was recorded.

    The main thread has to listen (``stop.listen_for_stop()``) and may be busy with anything.
    """
    delays = []
    for _ in range(count):
        time.sleep(0.01)
        stop._request = None  # noqa: SLF001 -- a process is asked once; here again and again
        stop._requested.clear()  # noqa: SLF001
        begin = time.time()
        os.kill(os.getpid(), signal.SIGUSR2)
        stop.wait_for_stop(_UNSEEN_S)
        request = stop.stop_request()
        delays.append(_UNSEEN_S if request is None else request.time - begin)
    return delays
