"""When each queue has its round, and what came of it."""

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from aerobee.broker.features.compaction.pacing import Pacer, Stopped, Threads
from aerobee.broker.settings.live import Live
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Gone
from aerobee.storage.features.compaction.copies import Copies
from aerobee.storage.features.compaction.rounds import KEY_BYTES, RoundResult, compact
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

QUEUES_PER_LOOK: Final = 2000
ROUNDS_SHOWN_MAX: Final = 20
QueueName = tuple[str, int]


class RoundShown(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What `/api/broker` says of a round; `error` is why it has failed."""

    topic: str
    queue_id: int
    ended_ms: int
    up_to: int = -1
    records: int = 0
    kept: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    damaged: int = 0
    error: str = ""


class Schedule:
    """Has each queue looked at once in `compactionScheduleInternal` and a random part of it.

    A round takes a thread, of which there are `compactionThreadNum`; queues wait for one in turn.
    """

    def __init__(
        self,
        live: Live,
        store: MessageStore,
        copies: Copies,
        names: Callable[[], Iterator[QueueName]],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._store = store
        self._copies = copies
        self._names = names
        self._clock_s = clock_s
        self._threads = Threads(copies.settings.rounds_max)
        self._waiting: deque[QueueName] = deque()
        self._under_way: set[QueueName] = set()
        self._looked_s, self._later = clock_s(), random.random()
        self.rounds = self.failed = self.dropped = self.damaged = self.freed_bytes = 0
        self.latest = deque[RoundShown](maxlen=ROUNDS_SHOWN_MAX)

    def look(self) -> None:
        """Begin what is due; to be called now and then."""
        if not self._waiting and self._clock_s() >= self._due_s:
            self._looked_s, self._later = self._clock_s(), random.random()
            self._waiting.extend(self._names())
        self._begin_waiting()

    @property
    def running(self) -> int:
        """How many rounds run."""
        return len(self._under_way)

    def begin(self, name: QueueName) -> bool:
        """Begin the round of a queue; False where there is nothing to begin."""
        queue = self._store.find_queue(*name)
        if queue is None or name in self._under_way or self._threads.closed:
            return False
        if not queue.max_offset:
            return False
        copy = self._copies.queue(*name)
        source = CopySource(self._store.files, self._store.commit_log.snapshot(), queue.snapshot())
        self._under_way.add(name)

        def done(result: RoundResult | None, error: Exception | None) -> None:
            self._under_way.discard(name)
            self._ended(name, result, error)
            self._begin_waiting()

        if not self._threads.run(lambda: self._round(name, copy, source), done):
            self._under_way.discard(name)
            return False
        return True

    async def idle(self) -> None:
        """Return when no round runs."""
        await self._threads.idle()

    def close(self) -> None:
        """Let rounds leave off, and begin no more."""
        self._waiting.clear()
        self._threads.close()

    def _begin_waiting(self) -> None:
        for _ in range(min(len(self._waiting), QUEUES_PER_LOOK)):
            if self._threads.running >= self._copies.settings.rounds_max:
                break
            name = self._waiting.popleft()
            copy = self._copies.queue(*name)
            if not copy.loaded or copy.closed_pairs:
                self.begin(name)

    def _round(self, name: QueueName, copy: CopiedQueue, source: CopySource) -> RoundResult:
        copy.load(source.queue.min_offset, source.queue.max_offset, source)
        settings = self._copies.settings
        keys_max = settings.map_bytes_max // settings.rounds_max // KEY_BYTES
        before = -1 if copy.anew else self._copies.compacted_to(*name)
        result = compact(copy, before, keys_max, Pacer(lambda: self._threads.closed))
        if result.compacted_to > before:
            self._copies.note_compacted(copy, name, result.compacted_to)
            copy.anew = False
        return result

    def _ended(self, name: QueueName, result: RoundResult | None, error: Exception | None) -> None:
        if isinstance(error, Stopped | Gone):
            return
        if error is not None or result is None:
            self.failed += 1
            self.latest.append(RoundShown(*name, wall_clock_ms(), error=str(error)))
            log.error("compaction_round_failed topic=%s queue=%d error=%s", *name, error)
            return
        if result.records:
            self.rounds += 1
            self.dropped += result.records - result.kept - result.damaged
            self.damaged += result.damaged
            self.freed_bytes += result.bytes_read - result.bytes_kept
            self.latest.append(
                RoundShown(
                    *name, wall_clock_ms(), result.compacted_to, result.records, result.kept,
                    result.bytes_read, result.bytes_kept, result.damaged,
                )
            )  # fmt: skip
            log.info(
                "compaction_round topic=%s queue=%d records=%d kept=%d damaged=%d up_to=%d"
                " bytes_before=%d bytes_after=%d",
                *name, result.records, result.kept, result.damaged, result.compacted_to,
                result.bytes_read, result.bytes_kept,
            )  # fmt: skip

    @property
    def _due_s(self) -> float:
        """When the next look is: an interval and a random part of it later, so that brokers differ.

        By the setting as it is now: one that was changed works at once.
        """
        interval_s = self._live.current.compaction_schedule_internal / 1000
        return self._looked_s + interval_s * (1 + self._later)
