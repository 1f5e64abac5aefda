"""The topics of this broker: how many queues each has, who may use it, and its attributes.

Invariants: every change raises the data version, marks the file and is told to `on_changed`, in
this order; a configuration is never changed in place, so whoever holds one holds a snapshot
(TopicConfigManager).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.rules.attributes import apply_edits
from aerobee.broker.rules.system_topics import system_topics
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.table_file import TableFile, decode_table
from aerobee.remoting.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from aerobee.remoting.codes import Perm, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import AUTO_CREATE_TOPIC, LIGHT_QUEUE_PREFIX, SYSTEM_TOPICS

log = logging.getLogger(__name__)

TOPICS_MAX: Final = 200_000


class TopicTable:
    """All topic configurations by name, kept in `config/topics.json`."""

    def __init__(
        self,
        system: Iterable[TopicConfig],
        now_ms: Callable[[], int],
        folder: Path,
        *,
        auto_create: bool = True,
        topics_max: int = TOPICS_MAX,
    ) -> None:
        self._now_ms = now_ms
        self._table = {config.topic_name: config for config in system}
        self._encoded = {name: _encode(name, config) for name, config in self._table.items()}
        self.auto_create = auto_create
        self.topics_max = topics_max
        # whether a light queue may be used, each of which is a topic (LmqTopicConfigManager)
        self.serves_light: Callable[[str], bool] | None = None
        # whether there is one of a name, served or not: no topic may be so called
        self.has_light: Callable[[str], bool] = lambda name: False
        self.data_version = DataVersion(timestamp=now_ms())
        self.file = TableFile(folder / "topics.json", self.snapshot)
        self.file.mark()
        self.on_changed: list[Callable[[TopicConfig], None]] = []
        self.on_deleted: list[Callable[[TopicConfig], None]] = []
        self.deletions = asyncio.Lock()  # one in a turn of the loop: each waits for the disk

    def load(self) -> None:
        """Read topics.json, if there is one; what it says of system topics wins."""
        stored = self.file.load(_decode)
        if stored is not None:
            self._table.update(stored.topic_config_table)
            for name, config in stored.topic_config_table.items():
                self._encoded[name] = _encode(name, config)
            self.data_version = stored.data_version

    def apply(self, settings: BrokerSettings) -> None:
        """Take settings that were changed at run time."""
        self.auto_create = settings.auto_create_topic_enable
        self.topics_max = settings.topics_max
        if self.auto_create and AUTO_CREATE_TOPIC not in self._table:
            for config in system_topics(settings):  # the broker was started without the model
                if config.topic_name == AUTO_CREATE_TOPIC:
                    self._put(config)

    def get(self, name: str) -> TopicConfig | None:
        """Return a topic's configuration; where light queues are served, that of any of them."""
        config = self._table.get(name)
        light = self.serves_light
        if config is None and light and name.startswith(LIGHT_QUEUE_PREFIX) and light(name):
            return TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
        return config

    def is_listed(self, name: str) -> bool:
        """Whether the table has a topic of that name, which light queues are not."""
        return name in self._table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[TopicConfig]:
        """Yield every configuration; the table may change meanwhile."""
        return iter(list(self._table.values()))

    def is_order_topic(self, name: str) -> bool:
        """Whether a topic is declared to be consumed in order."""
        config = self._table.get(name)
        return config is not None and config.order

    def create_on_send(
        self, name: str, default_topic: str, queues: int, topic_sys_flag: int = 0
    ) -> TopicConfig | None:
        """Return the topic that a message is sent to, made after the model of `default_topic`.

        Returns None where that one is unknown or does not let others inherit from it. The new topic
        has as many queues as the client asks for, at most the model's, and the model's permissions
        (createTopicInSendMessageMethod).
        """
        if (known := self._table.get(name)) is not None:
            return known
        model = self._table.get(default_topic)
        if model is None or not model.perm & Perm.INHERIT:
            return None
        if default_topic == AUTO_CREATE_TOPIC and not self.auto_create:
            return None
        queues = max(0, min(queues, model.write_queue_nums))
        config = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=model.perm & ~Perm.INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=topic_sys_flag,
        )
        self._put(config)
        return config

    def create_for_group(
        self,
        name: str,
        queues: int,
        perm: int = Perm.READ | Perm.WRITE,
        *,
        order: bool = False,
        topic_sys_flag: int = 0,
    ) -> tuple[TopicConfig, bool]:
        """Return a group's retry or dead-letter topic, and whether it was made or changed.

        An existing topic only follows `order` (createTopicInSendMessageBackMethod).
        """
        config = self._table.get(name)
        if config is not None:
            if config.order == order:
                return config, False
            config = msgspec.structs.replace(config, order=order)
        else:
            config = TopicConfig(
                topic_name=name,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_sys_flag=topic_sys_flag,
                order=order,
            )
        self._put(config)
        return config, True

    def update(self, config: TopicConfig, edits: Mapping[str, str] | None = None) -> TopicConfig:
        """Create or replace a topic; `edits` change its attributes, the others stay.

        Raises RequestError where an edit is not allowed.
        """
        config = self.planned(config, edits)
        if config != self._table.get(config.topic_name):
            self._put(config)
        return config

    def planned(self, config: TopicConfig, edits: Mapping[str, str] | None = None) -> TopicConfig:
        """Return what `update` would make of a topic as it is now; RequestError as there."""
        known = self._table.get(config.topic_name)
        attributes = apply_edits(None if known is None else known.attributes or {}, edits)
        return msgspec.structs.replace(config, attributes=attributes)

    def check_new(self, names: Sequence[str]) -> None:
        """Refuse topics that are to be made together where one cannot be, or is named twice."""
        if twice := next((name for name, count in Counter(names).items() if count > 1), None):
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"topic {twice} is in the list more than once"
            )
        new = [name for name in names if name not in self._table]
        for number, name in enumerate(new):
            self._check_room(name, number)

    def delete(self, name: str) -> TopicConfig | None:
        """Remove a topic; return what it was."""
        config = self._table.pop(name, None)
        self._encoded.pop(name, None)
        if config is not None:
            log.info("topic_deleted topic=%s", name)
            self.next_version()
            for callback in self.on_deleted:
                callback(config)
        return config

    def mark_order_topics(self, names: Iterable[str]) -> None:
        """Declare topics ordered that the nameservers' configuration calls so."""
        for name in names:
            config = self._table.get(name)
            if config is not None and not config.order:
                self._put(msgspec.structs.replace(config, order=True))

    def next_version(self) -> None:
        """Make the nameservers see a difference: they compare versions, not topics."""
        self.data_version = msgspec.structs.replace(
            self.data_version, timestamp=self._now_ms(), counter=self.data_version.counter + 1
        )
        self.file.mark()

    def encode(self) -> bytes:
        """Return the text of topics.json."""
        return self.snapshot()()

    def snapshot(self) -> Callable[[], bytes]:
        """Return what makes the text of topics.json as it is now, for another thread.

        Each topic is encoded when it changes: one more of ten thousand costs the writing of the
        file alone.
        """
        return partial(_joined, self.data_version, list(self._encoded.values()))

    def _put(self, config: TopicConfig) -> None:
        known = config.topic_name in self._table
        if not known:
            self._check_room(config.topic_name)
        self._table[config.topic_name] = config
        self._encoded[config.topic_name] = _encode(config.topic_name, config)
        log.info("topic_%s config=%s", "changed" if known else "created", config)
        self.next_version()
        for callback in self.on_changed:
            callback(config)

    def _check_room(self, name: str, others: int = 0) -> None:
        """Refuse a topic that is to be made beside so many others where there is no room for it."""
        own = name in SYSTEM_TOPICS  # made when it is needed, by the broker itself
        if not own and len(self._table) + others >= self.topics_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"topic {name} cannot be made: the broker has {len(self._table)} "
                "topics, topicsMax is the limit",
            )
        if self.has_light(name):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"topic {name} cannot be made: the store has a light queue (LMQ) so"
                " called, whose messages would be lost",
            )


def _encode(name: str, config: TopicConfig) -> bytes:
    return b"%b:%b" % (msgspec.json.encode(name), msgspec.json.encode(config))


def _joined(version: DataVersion, topics: list[bytes]) -> bytes:
    head = b'{"dataVersion":%b,"topicConfigTable":{' % msgspec.json.encode(version)
    return b"".join((head, b",".join(topics), b"}}"))


def _decode(data: bytes) -> TopicConfigSerializeWrapper:
    return decode_table(TopicConfigSerializeWrapper, data)
