"""The offsets that one pull has brought, and which of them are done."""

from bisect import bisect_left
from collections.abc import Sequence

from aerobee.client.compiled.choice import measure
from aerobee.client.received import ReceivedMessage


class PulledOffsets:
    """Offsets in rising order, of which those before the `at`th are done, and some behind it.

    Where the broker left nothing out they are a range, of a size that no count of messages changes.
    """

    __slots__ = ("_done", "at", "last", "offsets")

    def __init__(self, offsets: Sequence[int]) -> None:
        self.offsets = offsets
        self.last = offsets[-1]
        self.at = 0  # the oldest that is not done; as many as there are: all is done
        self._done: set[int] | None = None  # places behind it, of which there mostly are none

    @classmethod
    def of(cls, messages: list[ReceivedMessage]) -> tuple["PulledOffsets", int]:
        """Return those of messages, of which there are some, and how many bytes these hold."""
        held_bytes, consecutive = measure(messages)
        first, last = messages[0].queue_offset, messages[-1].queue_offset
        if consecutive:
            return cls(range(first, last + 1)), held_bytes
        return cls([message.queue_offset for message in messages]), held_bytes

    @property
    def is_done(self) -> bool:
        """Whether all of them are done."""
        return self.at == len(self.offsets)

    @property
    def oldest(self) -> int:
        """The smallest offset that is not done, of those that are not all done."""
        return self.offsets[self.at]

    def holds(self, offset: int) -> bool:
        """Whether an offset is one of these, and not done."""
        place = self._place(offset)
        return place >= self.at and (self._done is None or place not in self._done)

    def finish(self, offset: int) -> bool:
        """Let one be done; False where it is already, or is none of these."""
        place, done = self._place(offset), self._done
        if place != self.at:
            if place < self.at:
                return False
            if done is None:
                done = self._done = set()
            elif place in done:
                return False
            done.add(place)
            return True
        place += 1
        while done and place in done:
            done.remove(place)
            place += 1
        self.at = place
        return True

    def finish_all(self, messages: Sequence[ReceivedMessage]) -> bool:
        """Let messages be done that follow each other here; False, and none is, if they do not."""
        begin, end = self.at, self.at + len(messages)
        if self._done or end > len(self.offsets):
            return False
        first, last = messages[0].queue_offset, messages[-1].queue_offset
        offsets = self.offsets
        if offsets[begin] != first or offsets[end - 1] != last:
            return False
        if type(offsets) is not range:
            said = [message.queue_offset for message in messages]
            if said != offsets[begin:end]:
                return False
        self.at = end
        return True

    def _place(self, offset: int) -> int:
        """Return the place of an offset, -1 for one that is not here."""
        offsets = self.offsets
        if type(offsets) is range:
            place = offset - offsets[0]
            return place if 0 <= place < len(offsets) else -1
        place = bisect_left(offsets, offset)
        return place if place < len(offsets) and offsets[place] == offset else -1
