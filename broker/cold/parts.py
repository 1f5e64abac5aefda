"""Reads that may have to wait for the disk, as a room."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from aerobee.broker.cold.flow import ColdFlow
from aerobee.broker.cold.lookups import Lookups
from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.cold.views import Views
from aerobee.broker.room import Room, Sample
from aerobee.broker.settings.live import Live
from aerobee.storage.store import MessageStore


class Cold(Room):
    """Made once by the broker; `commit` writes what is pending, so that it is there to be found."""

    def __init__(self, live: Live, store: MessageStore, commit: Callable[[], object]) -> None:
        self.reads = ColdReads(asyncio.get_running_loop(), live)
        self.views = Views(self.reads)
        self.lookups = Lookups(store, commit, self.reads, self.views)
        self.flow = ColdFlow()
        self.on_closed = (self.reads.closed,)

    async def stop(self) -> None:
        """Begin no more reads."""
        self.reads.close()

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of reads."""
        return {
            "aerobee_cold_reads_total": "Reads of what was not in memory, done beside the loop",
            "aerobee_cold_reads_waiting": "Reads that wait for a thread that may wait for the disk",
            "aerobee_cold_read_errors_total": "Reads that the disk answered with an error",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many there were, and are."""
        yield Sample("aerobee_cold_reads_total", self.reads.begun)
        yield Sample("aerobee_cold_reads_waiting", self.reads.waiting)
        yield Sample("aerobee_cold_read_errors_total", self.reads.failed)
