"""A module whose import ends one rank of a job, with exit code 0 and without a word."""

import os
import time

if "HELPERS_RUN" in os.environ and os.environ["RANK"] == "1":
    os._exit(0)


def wait_long() -> str:
    """Have the other ranks do much."""
    time.sleep(600)
    return "never"
