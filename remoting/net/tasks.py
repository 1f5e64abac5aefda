"""The coroutines of requests that have to wait: held while they run, ended with their owner."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """A set of running tasks; asyncio itself keeps only weak references to them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many are running."""
        return len(self._running)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that handles its own errors."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def finish(self, timeout_s: float) -> None:
        """Wait for those that run, cancel those that still do after `timeout_s` seconds."""
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=timeout_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
