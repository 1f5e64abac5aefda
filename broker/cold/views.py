"""Messages that are kept beside their queues: where pulls and look-ups read them."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

from aerobee.broker.cold.reads import ColdReads
from aerobee.storage.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from aerobee.storage.features.compaction.copied_queue import Taken

LOOKUPS: Final = "look-ups of the broker"
"""Whose turn it is among the groups that wait for the disk."""


class View(Protocol):
    """What one queue has beside its entries, of offsets below `end`; all but that may wait."""

    @property
    def end(self) -> int:
        """From which offset on the queue itself is read."""

    def read(
        self, offset: int, messages_max: int, bytes_max: int, wanted: frozenset[int] | None
    ) -> "Taken":
        """Return messages from an offset on."""

    def first_since(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first message stored at a time or later, None: none was."""

    def oldest(self) -> tuple[int, int] | None:
        """Return offset and time of the oldest message, None where there is none."""


class Viewing(Protocol):
    """Who keeps such messages, and for which topics."""

    @property
    def topics(self) -> Collection[str]:
        """The topics; the same object for ever, whatever comes into it."""

    def view(self, topic: str, queue_id: int) -> View | None:
        """Return what there is of a queue of these topics."""

    async def removed(self, topic: str) -> None:
        """Return when nothing is left of a deleted topic; OSError where the disk refuses."""

    async def clean(self) -> None:
        """Remove what is left of topics that are none of these; OSError where the disk refuses."""


class Views:
    """What pulls and look-ups ask; without anybody who keeps messages it has no topics."""

    def __init__(self, cold_reads: ColdReads) -> None:
        self._cold_reads = cold_reads
        self._viewing: Viewing | None = None
        self.topics: Collection[str] = frozenset()

    def use(self, viewing: Viewing) -> None:
        """Ask this one from now on; its `topics` may change."""
        self._viewing, self.topics = viewing, viewing.topics

    def find(self, topic: str, queue_id: int) -> View | None:
        """Return what there is beside a queue, None where that is all."""
        if self._viewing is None or topic not in self.topics:
            return None
        return self._viewing.view(topic, queue_id)

    async def removed(self, topic: str) -> None:
        """Return when nothing is left of a deleted topic; OSError where the disk refuses."""
        if self._viewing is not None:
            await self._viewing.removed(topic)

    async def clean(self) -> None:
        """Remove what is left of topics that there are no more; OSError where the disk refuses."""
        if self._viewing is not None:
            await self._viewing.clean()

    async def oldest(self, queue: ConsumeQueue) -> tuple[int, int] | None:
        """Return offset and time of a queue's oldest message where that is not in the queue."""
        view = self.find(queue.topic, queue.queue_id)
        if view is None:
            return None
        found = await self._cold_reads.run(LOOKUPS, view.oldest)
        return None if found is None or found[0] >= queue.min_offset > 0 else found
