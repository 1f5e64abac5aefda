"""What goes wrong in a broker and how much goes through it, as a room."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from aerobee.broker.health.faults import Faults
from aerobee.broker.health.metrics import SAMPLE_INTERVAL_S, CountedQueue, Metrics
from aerobee.broker.health.requests import HELP, Requests
from aerobee.broker.health.troubles import LOOK_INTERVAL_S, Troubles
from aerobee.broker.room import Distribution, Room, Sample, Work
from aerobee.storage.store import MessageStore


class Health(Room):
    """Made before anything else, so that whatever goes wrong is counted."""

    def __init__(self, store: MessageStore) -> None:
        self.faults = Faults()
        self.metrics = Metrics()
        self.requests = Requests()
        self.troubles = Troubles(store, time.monotonic)
        self._used: Callable[[], Iterable[CountedQueue]] = tuple

    def watch(self, rooms: Iterable[Room], used: Callable[[], Iterable[CountedQueue]]) -> None:
        """Watch the files that rooms keep, and what has arrived in the queues that are in use."""
        self._used = used
        for room in rooms:
            self.troubles.files += room.files

    def background(self) -> Iterable[Work]:
        """Take samples for rates; look what has gone wrong and what is over."""
        return (
            Work("samples", self._sample, SAMPLE_INTERVAL_S),
            Work("troubles", self.troubles.look, LOOK_INTERVAL_S),
        )

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of errors, and of what requests take."""
        faults = "Errors inside the broker that nobody foresaw, by place"
        return {"aerobee_faults_total": faults} | HELP

    def distributions(self) -> Iterator[Distribution]:
        """Yield what requests took."""
        yield from self.requests.distributions()

    def samples(self) -> Iterator[Sample]:
        """Yield how many there were in each place."""
        for where, count in list(self.faults.counts.items()):
            yield Sample("aerobee_faults_total", count, {"where": where.replace(" ", "_")})

    async def _sample(self) -> None:
        for _ in self.metrics.sampling(self._used()):
            await asyncio.sleep(0)  # forty thousand queues at once would hold the loop for 20 ms
