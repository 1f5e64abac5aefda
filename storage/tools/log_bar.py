"""The progress bar of tools that read a whole log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aerobee.storage.layout import log_files
from aerobee.storage.settings import StoreSettings


@contextmanager
def log_bar(settings: StoreSettings, label: str) -> Iterator[Callable[[int], None]]:
    """Yield what takes the bytes done so far; it shows them after two seconds, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    total = sum(span.size for span in log_files(settings.root, settings.commit_log_dir))
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, visible=False)
        began = time.monotonic()

        def show(done: int) -> None:
            bar.update(task, completed=done, visible=time.monotonic() - began > 2)

        yield show
