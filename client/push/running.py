"""What the workers of a push consumer do at the moment."""

import asyncio
from typing import Any

from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage

Given = ReceivedMessage | list[ReceivedMessage]
"""What a handler gets: one message, or for a handler of batches a list."""


class Running:
    """What one worker is doing: what its handler got, and since when."""

    __slots__ = ("expiring", "given", "process", "settling", "since_s", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.process: ProcessQueue | None = None  # None: nothing, or nobody waits for it
        self.given: Given = []
        self.since_s = 0.0
        self.settling = False  # the handler has ended, and what it answered is seen to
        self.expiring: asyncio.Future[None] | None = None  # one of the messages is being given back

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages, also where it is only one."""
        return self.given if isinstance(self.given, list) else [self.given]
