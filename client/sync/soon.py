"""Sends that are on their way while their thread goes on, and how many of them there may be."""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from aerobee.client.errors import SendQueueFull
from aerobee.client.message import SendResult
from aerobee.client.sync.calls import Call

log = logging.getLogger(__name__)

MESSAGES_MAX: Final = 1_000
"""Sends of one producer that are on their way; more of them are not faster, only later."""
BYTES_MAX: Final = 32 * 1024 * 1024
"""Of their bodies; a larger one goes alone."""


class SendHandle:
    """A message on its way: `Producer.send_soon` returns it at once, the answer comes later.

        handle = producer.send_soon(message)
        result = handle.result()  # waits, and raises what `send` would

    An error at which nobody looks is logged when the handle goes.
    """

    __slots__ = ("_call", "_looked_at")

    def __init__(self, call: Call[SendResult]) -> None:
        """Be made by a producer."""
        self._call = call
        self._looked_at = False

    @property
    def done(self) -> bool:
        """Whether the answer is there, or the error."""
        return self._call.done

    @property
    def error(self) -> BaseException | None:
        """What `result` would raise; None after a success, and as long as it is not `done`."""
        self._looked_at |= self._call.done
        return self._call.error

    def result(self, timeout_ms: int | None = None) -> SendResult:
        """Wait for the answer and return it; raises what `send` raises.

        TimeoutError where there is none after `timeout_ms` (default: the send's own time decides);
        the message stays on its way.
        """
        if not self._call.wait_for(None if timeout_ms is None else timeout_ms / 1000):
            raise TimeoutError(f"the send was not answered within {timeout_ms} ms")
        self._looked_at = True
        return self._call.outcome()

    def __del__(self) -> None:
        """Tell of an error that nobody has seen."""
        if not self._looked_at and self._call.error is not None:
            log.error("a message was not sent, and nobody asked: %s", self._call.error)

    def __repr__(self) -> str:
        if not self.done:
            return "<SendHandle on its way>"
        return f"<SendHandle {self._call.error or self._call.result!r}>"


class SoonSends:
    """How much of one producer is on its way; who wants more waits until there is room."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._sizes: dict[object, int] = {}  # by ticket
        self._bytes = 0
        self._waiting = 0  # threads

    def add(self, size: int, block: bool) -> object:
        """Wait until there is room for a message of `size` bytes; return a ticket for it."""
        ticket = object()
        with self._changed:
            while not self.has_room(size):
                if not block:
                    raise SendQueueFull(len(self._sizes), self._bytes)
                self._wait(None)
            self._sizes[ticket] = size
            self._bytes += size
        return ticket

    def ended(self, ticket: object) -> None:
        """Give back the room of a message that was answered; a second time changes nothing."""
        with self._changed:
            self._bytes -= self._sizes.pop(ticket, 0)
            if self._waiting:
                self._changed.notify_all()

    def has_room(self, size: int) -> bool:
        """Whether `add` would not wait."""
        messages = len(self._sizes)
        return not messages or (messages < MESSAGES_MAX and self._bytes + size <= BYTES_MAX)

    def wait_for_room(self, seconds: float | None) -> bool:
        """Wait until one more message may come; False where none may after `seconds`."""
        return self._wait_while(lambda: not self.has_room(1), seconds)

    def flush(self, seconds: float | None) -> bool:
        """Wait until nothing is on its way; False where something still is, after `seconds`."""
        return self._wait_while(lambda: bool(self._sizes), seconds)

    def _wait_while(self, busy: Callable[[], bool], seconds: float | None) -> bool:
        deadline_s = None if seconds is None else monotonic() + seconds
        with self._changed:
            while busy():
                left_s = None if deadline_s is None else deadline_s - monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                self._wait(left_s)
        return True

    def _wait(self, seconds: float | None) -> None:
        self._waiting += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiting -= 1
