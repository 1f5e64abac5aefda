"""Queues that may name messages which are gone, and their shortening in slices."""

import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue

log = logging.getLogger(__name__)

SLICE_S: Final = 0.005  # at a time: the first entries of ten thousand queues are in no memory


class Shortening:
    """Lets queues begin with the first message that is kept, a few at each tick."""

    def __init__(self, parts: StoreParts) -> None:
        self._segments = parts.segments
        self._queues = parts.queues
        self._waiting: deque[ConsumeQueue] = deque()

    @property
    def waiting(self) -> int:
        """How many queues are still to be looked at."""
        return len(self._waiting)

    def begin(self, queues: Iterable[ConsumeQueue] | None = None) -> None:
        """Look at some queues, or at all, in this tick and those that follow."""
        if queues is None:
            self._waiting = deque(self._queues)
        else:
            self._waiting.extend(queues)
        self.go_on()

    def go_on(self) -> bool:
        """Shorten queues for SLICE_S, at least one; return whether some are left."""
        until_s = time.monotonic() + SLICE_S
        while self._waiting:
            queue = self._waiting.popleft()
            if self._queues.find(queue.topic, queue.queue_id) is queue:  # it was not deleted since
                try:
                    queue.trim(self._segments.begin)
                    queue.hide_before(self._queues.expired.before(queue.topic))
                except OSError as error:  # it goes on with the entries that it has
                    log.error("queue_not_trimmed queue=%s error=%s", queue.directory, error)
            if time.monotonic() >= until_s:
                break
        return bool(self._waiting)
