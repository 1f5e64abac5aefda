"""Stops the fetching of a queue of which enough is fetched that is not yet done."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.settings import PullSettings

log = logging.getLogger(__name__)

WARN_EVERY: Final = 1_000  # flow control is normal; every thousandth time it is worth a line


class FlowControl:
    """One queue's limits: messages, bytes and span (DefaultMQPushConsumerImpl.pullMessage).

    `sharers` tells how many queues share the limits that are for a whole topic. In an `ordered`
    queue nothing is done ahead of the oldest message, so that the span says nothing.
    """

    def __init__(
        self,
        queue: MessageQueue,
        settings: PullSettings,
        *,
        sharers: Callable[[], int] = lambda: 1,
        ordered: bool = False,
    ) -> None:
        self.times: Counter[str] = Counter()  # how often, by what exceeded its limit
        self._queue = queue
        self._settings = settings
        self._sharers = sharers
        self._ordered = ordered

    def exceeded(self, process: ProcessQueue) -> str | None:
        """Return what is above its limit: "messages", "bytes" or "span"; None if nothing is."""
        settings = self._settings
        if process.count > self._limit(settings.queue_messages_max, settings.topic_messages_max):
            return "messages"
        if process.bytes > self._limit(settings.queue_bytes_max, settings.topic_bytes_max):
            return "bytes"
        if process.span > settings.queue_span_max and not self._ordered:
            return "span"
        return None

    async def wait(self, process: ProcessQueue, what: str) -> None:
        """Wait for a moment; where messages are too many, only until half of them are done."""
        if self.times[what] % WARN_EVERY == 0:
            self._warn(process, what)
        self.times[what] += 1
        seconds = self._settings.flow_control_delay_ms / 1000
        if what == "messages":
            settings = self._settings
            most = self._limit(settings.queue_messages_max, settings.topic_messages_max)
            await process.wait_for_room(most // 2, seconds)
        else:
            await asyncio.sleep(seconds)

    def _limit(self, of_queue: int, of_topic: int | None) -> int:
        """The limit that counts: the topic's, divided among its owned queues, if there is one."""
        return of_queue if of_topic is None else max(1, of_topic // max(1, self._sharers()))

    def _warn(self, process: ProcessQueue, what: str) -> None:
        settings = self._settings
        limit = {
            "messages": self._limit(settings.queue_messages_max, settings.topic_messages_max),
            "bytes": self._limit(settings.queue_bytes_max, settings.topic_bytes_max),
            "span": settings.queue_span_max,
        }[what]
        state = process.statistics()
        log.warning(
            "flow control queue=%s %s_max=%d messages=%d bytes=%d span=%d oldest=%s newest=%s"
            " next_offset=%d times=%d",
            self._queue,
            what,
            limit,
            state.messages,
            state.bytes,
            process.span,
            state.oldest_offset,
            state.newest_offset,
            state.next_offset,
            self.times[what],
        )
