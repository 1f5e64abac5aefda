"""The demonstration on a terminal, where a table lives, or in a pipe, where lines follow lines."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final, Protocol

from aerobee.cli.demo.tally import ConsumerRow, Snapshot

LINES_INTERVAL_S: Final = 1.0


class Screen(Protocol):
    """Shows the course of events to whoever watches."""

    def show(self, snapshot: Snapshot) -> None:
        """Bring the view up to date; cheap enough to be called ten times a second."""

    def close(self) -> None:
        """Leave the last state visible."""


class Lines:
    """For a pipe or a log: one line a second, and one for each event."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._event = ""
        self._shown_s = -LINES_INTERVAL_S
        self._last: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Print a line if something happened or a second has passed."""
        self._last = snapshot
        if snapshot.event != self._event:
            self._event = snapshot.event
            print(f"{snapshot.elapsed_s:5.1f} s  -- {snapshot.event}", file=self._out)
        if snapshot.elapsed_s - self._shown_s >= LINES_INTERVAL_S:
            self._shown_s = snapshot.elapsed_s
            print(line(snapshot), file=self._out, flush=True)

    def close(self) -> None:
        """Print the last state."""
        if self._last is not None:
            print(line(self._last), file=self._out, flush=True)


class LiveTable:
    """For a terminal: a table that is drawn again in place."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(), auto_refresh=False, transient=False)
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Draw the table again."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(title=f"{snapshot.elapsed_s:4.1f} s  {snapshot.event}", title_justify="left")
        table.add_column("consumer")
        table.add_column("owns")
        table.add_column("took", justify="right")
        for row in snapshot.rows:
            table.add_row(
                row.consumer, owned(row), f"{row.took:,}", style=None if row.here else "dim"
            )
        below = Table.grid()
        counts = f"sent {snapshot.sent:,}   consumed {snapshot.consumed:,} of {snapshot.total:,}"
        bar = ProgressBar(total=snapshot.total, completed=snapshot.consumed, width=60)
        below.add_row(bar)
        below.add_row(counts)
        self._live.update(Group(table, below), refresh=True)

    def close(self) -> None:
        """Leave the table where it is and give the terminal back."""
        self._live.stop()


def owned(row: ConsumerRow) -> str:
    """Say which queues a consumer has: `DemoOrders 0 1  DemoPayments 2`."""
    if not row.here:
        return "left"
    parts = (f"{topic} {' '.join(map(str, ids))}" for topic, ids in row.queues.items() if ids)
    return "  ".join(parts) or "-"


def line(snapshot: Snapshot) -> str:
    """Put a snapshot on one line."""
    rows = "; ".join(f"{row.consumer} [{owned(row)}] took {row.took}" for row in snapshot.rows)
    return f"{snapshot.elapsed_s:5.1f} s  sent {snapshot.sent} consumed {snapshot.consumed}  {rows}"


@contextmanager
def screen() -> Iterator[Screen]:
    """Yield what fits where the output goes; the last state stays visible afterwards."""
    view: Screen = LiveTable() if sys.stdout.isatty() else Lines(sys.stdout)
    try:
        yield view
    finally:
        view.close()


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start_s = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start_s
