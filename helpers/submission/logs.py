"""Read what a run prints, over its ranks and attempts, before, during and after it runs."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.runtime.attempt import ATTEMPT_LINE
from helpers.runtime.status import read_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.runtime.run_folder import RunFolder


def read_logs(run: RunFolder, *, rank: int | None = None, attempt: int | None = None) -> str:
    """Return all that was printed so far, each file under its name."""
    parts = []
    for path in log_files(run, rank=rank, attempt=attempt):
        text = path.read_text(encoding="utf-8", errors="replace")
        if attempt is not None and path == run.batch_log:
            text = _of_attempt(text, attempt)
        if text:
            parts.append(f"==> {path.relative_to(run.path)} <==\n{text.rstrip()}\n")
    return "\n".join(parts)


def log_files(run: RunFolder, *, rank: int | None = None, attempt: int | None = None) -> list[Path]:
    """Return the log files there are: the batch script's, then each attempt's, by rank."""
    files = [run.batch_log] if rank is None and run.batch_log.exists() else []
    for number in run.attempts() if attempt is None else [attempt]:
        found = (run.logs / str(number)).glob("*" if rank is None else f"{rank}.*")
        files += sorted(found, key=lambda path: (int(path.stem) if path.stem.isdigit() else -1, path.suffix))
    return files


def attempt_ended(run: RunFolder, attempt: int) -> bool:
    """Say whether an attempt has ended, by the ledger or by the next one."""
    ends = {line["attempt"] for line in read_ledger(run) if line["event"] == "end"}
    return attempt in ends or any(number > attempt for number in run.attempts())


def _of_attempt(text: str, attempt: int) -> str:
    """Return what the batch script has printed in one attempt."""
    for part in re.split(rf"(?m)^(?={re.escape(ATTEMPT_LINE)})", text):
        if part.startswith(f"{ATTEMPT_LINE}{attempt}, "):
            return part
    return ""


@dataclass
class Follower:
    """Where a reader of a run's logs has come to."""

    run: RunFolder
    rank: int | None = None
    attempt: int | None = None
    _positions: dict[Path, int] = field(default_factory=dict)
    _decoders: dict[Path, codecs.IncrementalDecoder] = field(default_factory=dict)

    def new_text(self) -> Iterator[str]:
        """Yield what has been written since the last call, file by file."""
        for path in log_files(self.run, rank=self.rank, attempt=self.attempt):
            if self.attempt is not None and path == self.run.batch_log:
                continue  # it is of all attempts
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
