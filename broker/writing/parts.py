"""What appending needs, as one: the store, its queues, the turn of the loop, and who appends."""

import asyncio
from dataclasses import dataclass
from typing import Self

from aerobee.broker.health.faults import Faults
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.appender import Appender
from aerobee.broker.writing.queues import AckStyle, TopicQueues
from aerobee.broker.writing.tick import Tick
from aerobee.storage.store import MessageStore


@dataclass(frozen=True, slots=True)
class Writing:
    """Made once by the broker; only the loop's thread touches what is in it.

    `store_host` is ip and port of the broker as records carry them: 8 or 20 bytes.
    """

    store: MessageStore
    queues: TopicQueues
    tick: Tick
    appender: Appender
    store_host: bytes

    @classmethod
    def over(
        cls,
        loop: asyncio.AbstractEventLoop,
        live: Live,
        store: MessageStore,
        store_host: bytes,
        faults: Faults,
    ) -> Self:
        """Make it over an open store."""
        settings, tick = live.current, Tick(loop, store, faults)
        style = AckStyle(settings.region_id, settings.trace_on, store_host.hex().upper())
        queues = TopicQueues(store, style)
        live.on_change(queues.apply)
        return cls(store, queues, tick, Appender(store, tick), store_host)
