"""Read what a run prints, over its ranks and attempts, before, during and after it runs."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.runtime.run_folder import RunFolder


def read_logs(run: RunFolder, *, rank: int | None = None) -> str:
    """Return all that was printed so far, each file under its name."""
    parts = []
    for path in log_files(run, rank=rank):
        text = path.read_text(encoding="utf-8", errors="replace")
        if text:
            parts.append(f"==> {path.relative_to(run.path)} <==\n{text.rstrip()}\n")
    return "\n".join(parts)


def log_files(run: RunFolder, *, rank: int | None = None) -> list[Path]:
    """Return the log files there are: the batch script's, then each attempt's, by rank."""
    files = [run.batch_log] if rank is None and run.batch_log.exists() else []
    for attempt in run.attempts():
        found = (run.logs / str(attempt)).glob("*" if rank is None else f"{rank}.*")
        files += sorted(found, key=lambda path: (int(path.stem) if path.stem.isdigit() else -1, path.suffix))
    return files


@dataclass
class Follower:
    """Where a reader of a run's logs has come to."""

    run: RunFolder
    rank: int | None = None
    _positions: dict[Path, int] = field(default_factory=dict)
    _decoders: dict[Path, codecs.IncrementalDecoder] = field(default_factory=dict)

    def new_text(self) -> Iterator[str]:
        """Yield what has been written since the last call, file by file."""
        for path in log_files(self.run, rank=self.rank):
            with path.open("rb") as file:
                file.seek(self._positions.get(path, 0))
                data = file.read()
            if not data:
                continue
            self._positions[path] = self._positions.get(path, 0) + len(data)
            decoder = self._decoders.setdefault(path, codecs.getincrementaldecoder("utf-8")("replace"))
            text = decoder.decode(data)
            if text:
                yield text
