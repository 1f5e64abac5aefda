"""Half messages on their way in: stored where no consumer looks, and remembered as open."""

from collections.abc import Callable
from functools import partial
from typing import Final

from aerobee.broker.features.transactions.halves import Half, Key, OpenHalves
from aerobee.broker.features.transactions.ops import Clocks
from aerobee.broker.features.transactions.texts import (
    COPY_BYTES_MAX,
    immunity_ms,
    is_prepared,
    make_half,
)
from aerobee.broker.rules.delay_property import delay_level
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Elsewhere, StoredBefore
from aerobee.remoting.codes import ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import Property
from aerobee.remoting.words import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX

QUEUE_ID: Final = 0


class HalfPlacer:
    """Places half messages; `added` hears of each that is open now.

    One of a transaction that is open already, as a client's retry after a lost reply, is answered
    with the first one's place. What a group sends back is no half message, whatever it says.
    """

    def __init__(self, live: Live, writing: Writing, halves: OpenHalves, clock: Clocks) -> None:
        self._live = live
        self._store = writing.store
        self._queues = writing.queues
        self._tag_hashes = writing.appender.tag_hashes
        self._halves = halves
        self._clock = clock
        self.added: Callable[[], None] = lambda: None

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Return where a half message goes, with its properties changed for that."""
        if Property.TRAN_MSG not in properties or not is_prepared(properties):
            return None
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or delay_level(properties):
            return None
        key = Key(properties.get(Property.PGROUP, ""), properties[Property.UNIQ_KEY], topic)
        known = self._halves.find(key)
        if known is not None and not self._store.commit_log.losses:
            raise StoredBefore(known.queue_id, known.position, known.offset)
        if len(self._halves) >= self._live.current.open_transactions_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._halves)} transactions are open, which openTransactionsMax allows",
            )
        make_half(properties, topic, queue_id)
        queue = self._queues.get(HALF_TOPIC, QUEUE_ID)
        return Elsewhere(
            queue,
            self._tag_hashes[properties.get(Property.TAGS, "")],
            COPY_BYTES_MAX,
            partial(self._appended, key, queue_id, immunity_ms(properties), now_ms),
            SysFlag.TRANSACTION_ROLLBACK,
        )

    def _appended(self, key: Key, queue_id: int, immune_ms: int | None, now_ms: int) -> None:
        stored = self._queues.get(HALF_TOPIC, QUEUE_ID).stored
        offset = stored.max_offset - 1
        position, _, _ = stored.entry(offset)
        half = Half(key, offset, position, queue_id, now_ms, now_ms, immune_ms=immune_ms)
        self._halves.add(half, now_ms, self._clock.steady_ms())
        self.added()
