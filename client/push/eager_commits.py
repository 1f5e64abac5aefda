"""Commits offsets as soon as handlers end, for those who want few repetitions after a crash."""

import asyncio
from collections.abc import Awaitable, Callable

from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue


class EagerCommits:
    """Stores a queue's offset after each handler and waits for the answer.

    The worker goes on when the broker has it, so that after a crash only running handlers, and
    what was done behind the oldest of them, come again. Handlers that end while a commit of their
    queue is on its way share the next one. Nothing is stored while `locked` says no: another
    member may have the queue, and have got further.
    """

    def __init__(
        self,
        commit: Callable[[MessageQueue, int], Awaitable[None]],
        locked: Callable[[MessageQueue], bool],
    ) -> None:
        self._commit = commit
        self._locked = locked
        self._queues: dict[ProcessQueue, tuple[MessageQueue, asyncio.Lock]] = {}
        self._committed: dict[ProcessQueue, int] = {}

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Commit for this queue from now on."""
        self._queues[process] = queue, asyncio.Lock()
        self._committed[process] = process.committable

    def end(self, process: ProcessQueue) -> None:
        """Commit for this queue no more."""
        self._queues.pop(process, None)
        self._committed.pop(process, None)

    async def settled(self, process: ProcessQueue) -> None:
        """Store how far a queue got, unless it is lost: its last offset is stored at the end."""
        entry = self._queues.get(process)
        if entry is None:
            return
        queue, turn = entry
        async with turn:
            offset = process.committable
            if process.dropped or offset <= self._committed.get(process, offset):
                return
            if self._locked(queue):
                self._committed[process] = offset
                await self._commit(queue, offset)
