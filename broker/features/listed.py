"""Which features there are, what switches each on, and those that one broker has."""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from aerobee.broker.features.feature import Feature
from aerobee.broker.health.background import Background
from aerobee.broker.rules.attributes import dedup_window_ms, is_compacted
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import TopicConfig
from aerobee.storage.layout import COMPACTION, DEDUP

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Feature)
P = TypeVar("P")


class Listed(msgspec.Struct, frozen=True):
    """A feature by the name of its module, which has `make`, and whether it is wanted.

    With `asks` only from the first topic on that asks for it, or while the store has its `files`.
    """

    module: str
    wanted: Callable[[BrokerSettings], bool]
    asks: Callable[[TopicConfig], bool] | None = None
    files: str = ""


FEATURES: Final = (
    Listed(  # before delays: a half message waits for its producer, whatever else it asks for
        "aerobee.broker.features.transactions.feature",
        lambda settings: settings.transaction_enable,
    ),
    Listed("aerobee.broker.features.batch_queues.feature", lambda settings: True),  # as RocketMQ
    Listed("aerobee.broker.features.delays.feature", lambda settings: settings.delays_messages),
    Listed("aerobee.broker.features.timers.feature", lambda settings: settings.timer_wheel_enable),
    Listed(  # after them: what waits gets its entries when it is delivered
        "aerobee.broker.features.light_queues.feature", lambda settings: settings.light_queues
    ),
    Listed("aerobee.broker.features.index.feature", lambda settings: settings.message_index_enable),
    Listed(
        "aerobee.broker.features.dedup.feature",
        lambda settings: settings.stores_retries_once,
        lambda topic: dedup_window_ms(topic.attributes) > 0,
        DEDUP,
    ),
    Listed(
        "aerobee.broker.features.compaction.feature",
        lambda settings: settings.enable_compaction,
        is_compacted,
        COMPACTION,
    ),
    Listed(
        "aerobee.broker.features.sql92.feature", lambda settings: settings.enable_property_filter
    ),
    Listed(
        "aerobee.broker.features.topic_retention.feature",
        lambda settings: settings.topic_retention_enable,
    ),
)
"""Made of `Parts`, before what stands above them."""
DOORS: Final = (
    Listed("aerobee.broker.features.audit.feature", lambda settings: bool(settings.audit_file)),
    Listed("aerobee.broker.features.access.feature", lambda settings: settings.controls_access),
    Listed(
        "aerobee.broker.features.replies.feature",
        lambda settings: settings.reply_pushes_max > 0,
    ),
    Listed("aerobee.broker.features.static_topics.feature", lambda settings: True),  # as RocketMQ
    Listed(
        "aerobee.broker.features.http.feature",
        lambda settings: settings.http_port_wanted is not None or settings.has_metrics_port,
    ),
    Listed("aerobee.broker.features.metrics.feature", lambda settings: settings.sends_metrics),
)
"""Made of the context, when everything else is there."""


class Features(Generic[P]):
    """The features of one broker that a list has, in its order.

    One that settings do not want is not imported, nor one that topics must ask for before one does.
    Where its key works at once, or a topic comes to ask, it is added to a running broker, but for
    requests and places, which are those of the start; one that is wanted no more rests until the
    next start.
    """

    def __init__(self, listed: Sequence[Listed], background: Background) -> None:
        self._listed = listed
        self._background = background
        self._made: dict[str, Feature] = {}
        self._parts: P
        self._topics: Iterable[TopicConfig] = ()
        self._root: Path

    async def load(self, settings: BrokerSettings) -> None:
        """Import those that are wanted, in a thread: some take a tenth of a second."""
        for listed in self._missing(settings):
            if listed.asks is None:
                await asyncio.to_thread(importlib.import_module, listed.module)

    def make(self, live: Live, parts: P, topics: TopicTable) -> list[Feature]:
        """Make and return those that are wanted, and follow the settings and the topics."""
        self._parts, self._topics, self._root = parts, topics, live.current.store.root
        live.on_change(self._apply)
        if any(listed.asks is not None for listed in self._listed):
            topics.on_changed.append(lambda topic: self._hear_of(topic, live.current))
        return [self._make(listed) for listed in self._needed(live.current)]

    def find(self, kind: type[F]) -> F | None:
        """Return the feature of a class, None where it is switched off."""
        return next((made for made in self._made.values() if isinstance(made, kind)), None)

    def _missing(self, settings: BrokerSettings) -> list[Listed]:
        return [
            listed
            for listed in self._listed
            if listed.module not in self._made and listed.wanted(settings)
        ]

    def _needed(self, settings: BrokerSettings) -> list[Listed]:
        return [
            listed
            for listed in self._missing(settings)
            if listed.asks is None
            or any(map(listed.asks, self._topics))
            or (listed.files and (self._root / listed.files).exists())
        ]

    def _make(self, listed: Listed, asking: TopicConfig | None = None) -> Feature:
        parts: Any = self._parts
        if asking is not None:
            parts = msgspec.structs.replace(parts, asking=asking)
        made: Feature = importlib.import_module(listed.module).make(parts)
        self._made[listed.module] = made
        return made

    def _apply(self, settings: BrokerSettings) -> None:
        for listed in self._needed(settings):
            self._add(listed)

    def _hear_of(self, topic: TopicConfig, settings: BrokerSettings) -> None:
        """Make what a topic asks for; it takes some 20 ms, once."""
        for listed in self._missing(settings):
            if listed.asks is not None and listed.asks(topic):
                self._add(listed, topic)

    def _add(self, listed: Listed, asking: TopicConfig | None = None) -> None:
        self._background.add(self._make(listed, asking))
        log.info("feature_switched_on name=%s", listed.module.split(".")[-2])
