"""A bar for what takes more than a moment; nothing where the output is no terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str, *, after_s: float = 0.0) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with (done, total); it draws on stderr if that is a terminal.

    The bar appears with the first call that comes `after_s` seconds or later.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=None)
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - began >= after_s:
            bar.start()
        bar.update(task, completed=done, total=total or None)

    try:
        yield show
    finally:
        bar.stop()
