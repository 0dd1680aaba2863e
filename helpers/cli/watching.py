"""Keep a table of runs on the terminal, as they stand."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from helpers.cli.report import INTERRUPTED, note
from helpers.errors import ClusterUnreachable, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from helpers.cli.runs import RunView

_EVERY_S = 2.0
_LONGEST_PAUSE_S = 60.0


def watch(
    views: Sequence[RunView],
    look: Callable[[], Sequence[RunView]],
    table_of: Callable[[Sequence[RunView]], Table],
) -> None:
    """Show the table again and again, until every run in it has ended or somebody presses Ctrl-C.

    Args:
        views: How the runs stand now.
        look: Returns how the runs stand; asks the scheduler once.
        table_of: Lays them out.

    Raises:
        InvalidRequest: If there is no terminal to keep it on.
        typer.Exit: With 130 after Ctrl-C.
    """
    from rich.live import Live

    if not sys.stdout.isatty():
        raise InvalidRequest(
            "--watch needs a terminal: it writes over what it has written.", hint="helpers status --json"
        )
    pause = _EVERY_S
    try:
        with Live(table_of(views), auto_refresh=False) as live:
            while not all(view.status.state.is_final for view in views):
                time.sleep(pause)
                try:
                    views, pause = look(), _EVERY_S
                except ClusterUnreachable:  # the table stays; the next answer renews it
                    pause = min(pause * 2, _LONGEST_PAUSE_S)
                live.update(table_of(views), refresh=True)
    except KeyboardInterrupt:
        note("the jobs go on")
        raise typer.Exit(INTERRUPTED) from None
