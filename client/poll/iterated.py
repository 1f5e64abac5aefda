"""Messages that one task asks for one by one, as `async for` does, booked together."""

from aerobee.client.poll.takers import Taker
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage


class IteratedRun:
    """What is left of one pull, of which `taker` gets one message after the other.

    The one before the `at`th is handed out; those before that count as consumed, and are booked
    when somebody looks at their queue (`OpenRun`), or when the run ends.
    """

    __slots__ = ("_booked", "at", "count", "messages", "process", "taker")

    def __init__(
        self, process: ProcessQueue, messages: list[ReceivedMessage], at: int, taker: Taker
    ) -> None:
        self.process = process
        self.messages = messages
        self.count = len(messages)
        self.at = self._booked = at
        self.taker = taker

    def take(self) -> ReceivedMessage:
        """Hand out the next message; there has to be one."""
        at = self.at
        self.at = at + 1
        return self.messages[at]

    def rest(self) -> list[ReceivedMessage]:
        """Return what was not handed out."""
        return self.messages[self.at :]

    def book(self) -> None:
        """Let its queue know of the messages that are consumed."""
        begin, behind = self._booked, self.at - 1
        if begin < behind:
            self._booked = behind
            self.process.done_all(self.messages[begin:behind])
