"""Put stand-in cards into a test's machine."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.runtime.gpus import nvml

HERE = Path(__file__).parent


class Cards:
    """The cards of the machine, as this test and the jobs that it starts see them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = folder / "cards.json"
        for name in ("CUDA_VISIBLE_DEVICES", "HELPERS_LEASE", "HELPERS_ALLOW_USED_GPUS", "HELPERS_ALLOCATION"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HELPERS_LEASES", str(folder / "leases"))
        monkeypatch.setenv("STAND_IN_CARDS", str(self._file))
        monkeypatch.setenv("PYTHONPATH", str(HERE))
        monkeypatch.syspath_prepend(HERE)
        monkeypatch.delitem(sys.modules, "pynvml", raising=False)
        nvml._start.cache_clear()
        self.are([])

    def are(self, cards: list[dict[str, Any]]) -> None:
        """Change them, in one step."""
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(cards))
        new.replace(self._file)

    def number(self, count: int) -> None:
        """Have so many, free, named ``GPU-0``, ``GPU-1``, …."""
        self.are([{"uuid": f"GPU-{index}"} for index in range(count)])


@pytest.fixture
def cards(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cards]:
    """A driver with cards of the test's choice, and a folder of leases of its own."""
    yield Cards(tmp_path_factory.mktemp("cards"), monkeypatch)
    nvml._start.cache_clear()
    sys.modules.pop("pynvml", None)
