"""Load a pickled call in a clean interpreter, before it is queued: ``python -P -m helpers.runtime.rank.trial``.

It reads from standard input a line of JSON (search path, source, sizes of the parts) and the parts, pickles
all of them; it prints a line of JSON: which part cannot be loaded, and why. What the user's modules print on
import goes to standard error.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback

from helpers.runtime.rank.source import import_as_submitted, read_source


def main() -> None:
    """Load the parts in turn and report the first that cannot be loaded."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.buffer.readline())
    parts = [sys.stdin.buffer.read(size) for size in asked["sizes"]]
    before = sys.path if asked["own_packages"] else []
    import_as_submitted(read_source(asked["source"]), [*asked["sys_path"], *before])
    answer: dict[str, object] = {"part": None}
    for number, data in enumerate(parts):
        try:
            pickle.loads(data)
        except BaseException as error:  # noqa: BLE001 -- whatever a user's module raises on import, SystemExit too
            answer = {"part": number, **_describe(error)}
            break
    report.write(json.dumps(answer))
    report.flush()
    os._exit(0)  # what the user's modules have started or registered is not waited for


def _describe(error: BaseException) -> dict[str, object]:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    place = f"{own[-1].filename}, line {own[-1].lineno}" if own else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
    return {
        "kind": type(error).__name__,
        "text": str(error),
        "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
        "left": isinstance(error, SystemExit),
        "memory": isinstance(error, MemoryError),
        "place": place,
        "traceback": "".join(traceback.format_exception(error)),
    }


if __name__ == "__main__":
    main()
