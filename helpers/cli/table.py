"""Lay out tables and amounts for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "yellow", "REQUEUED": "yellow", "CANCELLED": "dim"}
_PIPED_WIDTH = 1000  # where no person looks, a reason is not cut
_WIDEST = 30  # of all columns but the last
_NARROWEST = 14  # of the last
_GAP = "  "


def coloured(state: str) -> Text:
    """Return a state in its colour; red is what ended without a result."""
    return Text(state, style=_COLOURS.get(state, "red"))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print rows under titles; the last column gives way where the terminal is narrow."""
    console = Console(highlight=False)
    is_piped = not console.is_terminal
    if is_piped:
        console = Console(highlight=False, width=_PIPED_WIDTH)
    table = make_table(titles, rows, width=console.width)
    if not is_piped:
        console.print(table)
        return
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))  # not padded to the widest reason


def make_table(titles: Sequence[str], rows: Sequence[Sequence[str | Text]], *, width: int | None = None) -> Table:
    """Lay out rows under titles, for a terminal of this width; None for the one that there is."""
    width = Console().width if width is None else width
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), collapse_padding=True, header_style="bold")
    cells = [[cell if isinstance(cell, Text) else Text(_one_line(cell)) for cell in row] for row in rows]
    widths = [max([len(title), *(row[number].cell_len for row in cells)]) for number, title in enumerate(titles)]
    widths = [*(min(width, _WIDEST) for width in widths[:-1]), widths[-1]]
    left = width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
    widths[-1] = min(widths[-1], max(left, _NARROWEST))
    for title, size in zip(titles, widths, strict=True):
        table.add_column(title, no_wrap=True, overflow="ellipsis", width=size)
    for row in cells:
        table.add_row(*row)
    return table


def span(seconds: float | None) -> str:
    """Return a duration: ``12s``, ``3min``, ``2h05``, ``1d 3h``."""
    if seconds is None:
        return ""
    minutes, hours = int(seconds) // 60, int(seconds) // 3600
    if not minutes:
        return f"{max(seconds, 0):.0f}s"
    if not hours:
        return f"{minutes}min"
    return f"{hours}h{minutes % 60:02}" if hours < 24 else f"{hours // 24}d {hours % 24}h"  # noqa: PLR2004


def moment(seconds: float | None) -> str:
    """Return a point in time, by this machine's clock: ``14:05`` today, else ``05-31 14:05``."""
    if seconds is None:
        return ""
    then, now = datetime.fromtimestamp(seconds).astimezone(), datetime.now().astimezone()
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%m-%d %H:%M}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
