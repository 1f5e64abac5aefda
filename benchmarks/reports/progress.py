"""What is going on, for who waits: benchmarks take minutes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(steps: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show on stderr what is going on: a bar in a terminal, a line for each step elsewhere."""
    if not sys.stderr.isatty():
        yield (lambda text: print(text, file=sys.stderr, flush=True)), (lambda: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*parts, console=Console(stderr=True)) as shown:
        task = shown.add_task("", total=steps)
        yield (
            (lambda text: shown.update(task, description=text)),
            (lambda: shown.advance(task)),
        )
