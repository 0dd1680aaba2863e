"""Print the answer of a command for programs: what ``--json`` gives."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout; what JSON has no kind for, such as a path, as text."""
    text = json.dumps(value, indent=1, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # the name of a file that is no UTF-8
        text = json.dumps(value, indent=1, default=str)
    print(text, flush=True)
