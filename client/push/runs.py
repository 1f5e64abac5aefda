"""Messages that one worker handles one after the other, booked together."""

from aerobee.client.push.handling import ConsumeRequest, HandlingCounts


class HandledRun:
    """Messages of one pull whose handlers have succeeded, from the `first`th up to the `next`th.

    While handlers do not wait nobody can look, so that it is enough to book at the end, or when
    somebody does. Other workers may take messages of the same pull meanwhile: then it is booked,
    and goes on behind them. `ended_s` is when the last handler ended, by the loop's clock.
    """

    __slots__ = ("_began_s", "_counts", "_work", "ended_s", "first", "next")

    def __init__(self, work: ConsumeRequest, counts: HandlingCounts, began_s: float) -> None:
        self._work = work
        self._counts = counts
        self._began_s = self.ended_s = began_s
        self.first = self.next = work.at

    def skip_to(self, at: int) -> None:
        """Go on with the `at`th message: others have taken some."""
        self.book()
        self.first = self.next = at

    def book(self) -> None:
        """Count messages as handled, so that the queue's offset may pass them."""
        first, behind = self.first, self.next
        if first == behind:
            return
        self.first = behind
        work, ended_s = self._work, self.ended_s
        count = behind - first
        counters = work.counters
        counters.calls += count
        counters.call_s += ended_s - self._began_s
        counters.succeeded += count
        self._began_s = ended_s
        self._counts.succeeded += count
        work.process.handled(ended_s)
        work.process.done_all(work.messages[first:behind])
