"""Read what a run prints, over its ranks and attempts, before, during and after it runs."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.errors import InvalidRequest
from helpers.runtime.attempt.attempt import ATTEMPT_LINE
from helpers.runtime.run.status import read_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.runtime.run.description import Description
    from helpers.runtime.run.folder import RunFolder


def check_rank(description: Description, rank: int | None) -> None:
    """Refuse the logs of a process that a job does not have.

    Raises:
        InvalidRequest: With the ranks that it has.
    """
    if rank is not None and rank not in range(description.processes):
        raise InvalidRequest(
            f"The job has ranks 0 to {description.processes - 1}; got {rank}.",
            hint="leave rank out for the logs of all",
        )


def read_logs(run: RunFolder, *, rank: int | None = None, attempt: int | None = None) -> str:
    """Return all that was printed so far, each file under its name."""
    texts = texts_of_logs(run, rank=rank, attempt=attempt)
    return "\n".join(f"==> {path.relative_to(run.path)} <==\n{text.rstrip()}\n" for path, text in texts)


def texts_of_logs(run: RunFolder, *, rank: int | None = None, attempt: int | None = None) -> list[tuple[Path, str]]:
    """Return what was printed so far, file by file; those that are empty are left out."""
    texts = []
    for path in log_files(run, rank=rank, attempt=attempt):
        text = path.read_text(encoding="utf-8", errors="replace")
        if attempt is not None and path == run.batch_log:
            text = _of_attempt(text, attempt)
        if text:
            texts.append((path, text))
    return texts


def log_files(run: RunFolder, *, rank: int | None = None, attempt: int | None = None) -> list[Path]:
    """Return the log files there are: the batch script's, then each attempt's, by rank."""
    files = [run.batch_log] if rank is None and run.batch_log.exists() else []
    for number in run.attempts() if attempt is None else [attempt]:
        found = (run.logs / str(number)).glob("*" if rank is None else f"{rank}.*")
        files += sorted(found, key=_place)
    return files


def _place(path: Path) -> tuple[int, bool]:
    """Put ranks in their order, and the traceback of each after what it has printed."""
    return int(path.stem) if path.stem.isdigit() else -1, path.suffix == ".err"


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
