"""What has arrived for a connection's channels, and who waits for it."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from aerobee.client.received import ReceivedMessage

if TYPE_CHECKING:
    from aerobee.integrations.kombu.topic_source import TopicSource


class Delivery:
    """One message in a channel's hands: it is the taker of what a consumer has handed out.

    Done once it is acknowledged: only then its queue's offset may pass it.
    """

    __slots__ = ("_done", "message", "since_s", "source")

    message: ReceivedMessage  # as soon as there is one

    def __init__(self, source: "TopicSource") -> None:
        self.source = source
        self.since_s = 0.0
        self._done = False

    def done(self) -> bool:
        """Whether it is acknowledged."""
        return self._done

    def acknowledge(self) -> None:
        """Nobody has to get it again; a second time changes nothing."""
        if not self._done:
            self._done = True
            self.source.acknowledged()


class Arrivals:
    """Counts what may have changed for those who drain a connection, and wakes them."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def tell(self) -> None:
        """Something arrived, or there is room for more; from any thread."""
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float | None) -> None:
        """Wait until the count is another than `seen`, at most for so long."""
        with self._changed:
            self._changed.wait_for(lambda: self.count != seen, seconds)


class Demand(NamedTuple):
    """What a channel says of one queue, in the loop's thread."""

    left: Callable[[], int]  # how many more messages may arrive
    wanted: Callable[[], bool]  # whether somebody asks for them at all
