"""How late the loop comes to what clients have sent."""

from collections.abc import Callable
from typing import Final

from aerobee.broker.live import Live

BEAT_S: Final = 0.1
FIRST_READS_S: Final = (
    0.02  # after a beat that came late: what is read then may have waited as long
)

TIMED_OUT: Final = (
    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
    "period in queue: %dms, size of queue: %d"
)
DISK_BUSY: Final = (
    "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, "
    "period in queue: %dms, size of queue: %d"
)


class Lateness:
    """Tells of each read how long its bytes may have waited, from a beat every BEAT_S seconds.

    The loop was away for as long as a beat is late, and bytes that are read before the next beat is
    due, or right after a late one, may have come when it left: that is an upper bound. Time in
    which requests were served does not count: under load that lasts, to refuse would cost as much
    as to serve, and nobody would be served. `clock_s` is the loop's time; a read costs one call of
    it, whatever it brings.
    """

    def __init__(self, live: Live, clock_s: Callable[[], float]) -> None:
        self._live = live
        self._clock_s = clock_s
        self._beat_s: float | None = None  # before the first one nothing is late
        self._late_s = 0.0  # how late the last beat was
        self._writing_s = 0.0  # how long the last slow write to the log took
        self._written_s = 0.0  # ... and when it had ended
        self.serving_s = 0.0  # since the last beat; whoever serves requests adds to it
        self.refused = 0

    @property
    def wait_ms(self) -> int:
        """How long a request may wait (waitTimeMillsInSendQueue)."""
        return self._live.current.wait_time_mills_in_send_queue

    def beat(self) -> None:
        """Note that the loop has come round; to be called every BEAT_S seconds."""
        now = self._clock_s()
        if self._beat_s is not None:
            self._late_s = max(0.0, now - self._beat_s - BEAT_S - self.serving_s)
        self.serving_s = 0.0
        self._beat_s = now

    def wrote(self, seconds: float) -> None:
        """Note how long a write to the log has taken."""
        self._writing_s, self._written_s = seconds, self._clock_s()

    def waited_ms(self) -> float:
        """Return how long what is read now may have waited, in ms."""
        if self._beat_s is None:
            return 0.0
        away_s = self._clock_s() - self._beat_s
        if away_s <= FIRST_READS_S:
            return self._late_s * 1000
        return (away_s - BEAT_S - self.serving_s) * 1000

    def remark(self) -> str | None:
        """Return why sends that are read now are refused, None where they are taken.

        It has places for the time in ms and the number of those that are refused with it.
        """
        settings = self._live.current
        waited_ms = self.waited_ms()
        if waited_ms <= settings.wait_time_mills_in_send_queue:
            return None
        if not settings.broker_fast_failure_enable:
            return None
        writing_ms = self._writing_s * 1000
        recent = self._clock_s() - self._written_s <= BEAT_S + FIRST_READS_S
        if recent and writing_ms > settings.os_page_cache_busy_time_out_mills:
            return DISK_BUSY
        return TIMED_OUT
