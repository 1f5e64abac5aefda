"""How late the loop comes to what clients have sent."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from time import monotonic
from typing import Final

from aerobee.broker.room import Room, Sample, Work
from aerobee.broker.settings.live import Live

BEAT_S: Final = 0.05
LATE_S: Final = 0.01  # a beat that is later says something of what is read after it

TIMED_OUT: Final = (
    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
    "period in queue: %dms, size of queue: %d"
)
DISK_BUSY: Final = (
    "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, "
    "period in queue: %dms, size of queue: %d"
)


class Lateness(Room):
    """Tells how long what is read may have waited for the loop, from a beat every BEAT_S seconds.

    Whatever kept the loop, requests too: a beat is late for as long, and what is read in the turn
    after it may have come when the last turn began. Wrong by BEAT_S at most. A read that is in time
    costs one comparison, `in_time_until_s`; times are those of `clock_s`.

    Where acknowledgements wait for the disk, `sync_s` says how long it has been at the sync that is
    under way. While that is more than osPageCacheBusyTimeOutMills, whatever is read would wait for
    as long, and comes too late.
    """

    def __init__(
        self,
        live: Live,
        soon: Callable[[Callable[[], None]], object],
        clock_s: Callable[[], float] = monotonic,
        sync_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._live = live
        self._soon = soon  # calls at the end of the turn that begins
        self._clock_s = clock_s
        self._sync_s = sync_s
        self._stalled_s = 0.0  # how long the disk had not answered at the last beat, if for long
        self._beat_s: float | None = None  # before the first one nothing is late
        self._late_s = 0.0  # how late the last beat was, while its turn lasts
        self._writing_s = 0.0  # how long the last slow write to the log took
        self._written_s = 0.0  # ... and when it had ended
        self.in_time_until_s = inf  # what is read after that has waited for too long
        self.late_at_s = -inf  # when a beat was late for the last time
        self.refused = 0

    @property
    def wait_s(self) -> float:
        """How long a request may wait (waitTimeMillsInSendQueue); inf where none is refused."""
        settings = self._live.current
        if not settings.broker_fast_failure_enable:
            return inf
        return settings.wait_time_mills_in_send_queue / 1000

    def beat(self) -> None:
        """Note that the loop has come round; to be called every BEAT_S seconds."""
        now_s = self._clock_s()
        late_s = 0.0 if self._beat_s is None else now_s - self._beat_s - BEAT_S
        self._beat_s = now_s
        self._late_s = late_s if late_s > LATE_S else 0.0
        sync_s = self._sync_s()
        self._stalled_s = sync_s if sync_s > self._busy_s else 0.0
        if self._late_s:
            self.late_at_s = now_s
            self._serve_until(now_s + self.wait_s - late_s)
            self._soon(self._turned)
        else:
            self._serve_until(now_s + BEAT_S + self.wait_s)

    def rest(self) -> None:
        """Note that no beat comes any more: nothing is late until the next one."""
        self._beat_s, self._late_s, self._stalled_s, self.in_time_until_s = None, 0.0, 0.0, inf

    async def stop(self) -> None:
        """Refuse nothing that comes during the stop: no beat does."""
        self.rest()

    def background(self) -> Iterable[Work]:
        """Beat."""
        return (Work("lateness", self.beat, BEAT_S),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of refusals."""
        return {"aerobee_late_sends_refused_total": "Sends that waited for longer than they may"}

    def samples(self) -> Iterator[Sample]:
        """Yield how many there were."""
        yield Sample("aerobee_late_sends_refused_total", self.refused)

    @property
    def stalled(self) -> bool:
        """Whether what is read now would wait for a disk that has not answered for long."""
        return self._stalled_s > 0

    @property
    def _busy_s(self) -> float:
        return self._live.current.os_page_cache_busy_time_out_mills / 1000

    def _serve_until(self, until_s: float) -> None:
        self.in_time_until_s = -inf if self._stalled_s and until_s < inf else until_s

    def _turned(self) -> None:
        """Note that what is read from now on has come after the last beat."""
        if self._beat_s is not None:
            self._late_s = 0.0
            self._serve_until(self._beat_s + BEAT_S + self.wait_s)

    def wrote(self, seconds: float) -> None:
        """Note how long a write to the log has taken."""
        self._writing_s, self._written_s = seconds, self._clock_s()

    def waited_s(self, now_s: float) -> float:
        """Return how long what is read now may have waited for the loop."""
        if self._beat_s is None:
            return 0.0
        return max(self._stalled_s, now_s - self._beat_s + (self._late_s or -BEAT_S))

    def remark(self, waited_s: float, now_s: float) -> str:
        """Return why sends that waited so long are refused.

        It has places for the time in ms and the number of requests that waited with it.
        """
        meanwhile = self._written_s >= now_s - waited_s - BEAT_S
        slow = meanwhile and self._writing_s > self._busy_s
        return DISK_BUSY if slow or self._stalled_s else TIMED_OUT
