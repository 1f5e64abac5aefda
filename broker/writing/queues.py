"""What the broker keeps for each queue: who waits on it, how to answer, what arrived."""

from collections.abc import Callable, Container
from operator import itemgetter
from typing import Any, Final
from weakref import WeakSet

import msgspec
from msgspec.structs import replace

from aerobee.broker.rules.attributes import is_batched, is_compacted
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.firsts import SeenKeys
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm
from aerobee.remoting.command import VERSION
from aerobee.storage.grouped_keys import GroupedKeys
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.store import MessageStore

ACK: Final = (
    '{"code":0,"extFields":{"MSG_REGION":"%s","TRACE_ON":"%s","msgId":"%s%%016X",'
    '"queueId":"%d","queueOffset":"%%d","transactionId":"%%b"},"flag":1,"language":"JAVA",'
    '"opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
)

BATCH_ACK: Final = (
    '{"code":0,"extFields":{"MSG_REGION":"%s","TRACE_ON":"%s","msgId":"%%b",'
    '"queueId":"%d","queueOffset":"%%d"},"flag":1,"language":"JAVA",'
    '"opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
)


class AckStyle(msgspec.Struct, frozen=True):
    """What every acknowledgement of this broker carries."""

    region: str
    trace_on: bool
    store_host_hex: str  # store host and port as in a record, upper-case hex


class TopicQueue:
    """One queue of one topic as the broker serves it."""

    __slots__ = (
        "ack",
        "arrived_bytes",
        "batch_ack",
        "holds",
        "lane",
        "name",
        "queue_id",
        "start_offset",
        "stored",
    )

    def __init__(self, topic: str, queue_id: int, stored: ConsumeQueue, style: AckStyle) -> None:
        self.name = topic
        self.queue_id = queue_id
        self.stored = stored
        self.start_offset = stored.max_offset  # what was there before this process: not "in"
        self.arrived_bytes = 0
        self.lane: object = None  # what compiled code keeps of this queue
        self.holds: dict[Any, None] = {}  # held pulls in the order they came: `Holds` knows them
        self.ack = self.batch_ack = b""
        self.answer_in(style)

    def answer_in(self, style: AckStyle) -> None:
        """Let acknowledgements be of this style from now on."""
        queue_id, self.lane = self.queue_id, None  # it has a copy
        trace = "true" if style.trace_on else "false"
        region = in_template(style.region)
        text = ACK % (region, trace, style.store_host_hex, queue_id, VERSION)
        self.ack = text.encode()  # formatted with position, offset, unique key, opaque
        batch = BATCH_ACK % (region, trace, queue_id, VERSION)
        self.batch_ack = batch.encode()  # formatted with ids, first offset, opaque


def in_template(text: str) -> str:
    """Write a text as JSON has it between quotes, free of signs that a template would fill in."""
    return msgspec.json.encode(text).decode()[1:-1].replace("%", "\\u0025")


class QueueExcerpt:
    """What of the short lists is one client's: topics that were checked for him, too.

    Its lists are those of `TopicQueues`, and are forgotten with them. `access_key` is what his
    requests must say that he is.
    """

    def __init__(self, queues: "TopicQueues", access_key: bytes) -> None:
        self._queues = queues
        self.access_key: bytes | None = access_key
        self.fast: dict[str, list[TopicQueue | None]] = {}
        self.once: dict[str, list[TopicQueue | None]] = {}
        self.watched = queues.watched
        queues.excerpts.add(self)

    def admit(self, topic: str) -> None:
        """Have what is listed of a topic, which this client may send to."""
        for own, listed in ((self.fast, self._queues.fast), (self.once, self._queues.once)):
            if (queues := listed.get(topic)) is not None:
                own[topic] = queues

    def drop_topic(self, topic: str) -> None:
        """Forget one topic."""
        self.fast.pop(topic, None)
        self.once.pop(topic, None)

    def forget_checks(self) -> None:
        """Forget all, to be checked anew."""
        self.fast.clear()
        self.once.clear()


class TopicQueues:
    """Every queue that was used since the start, and the short list of those for the fast path.

    A queue comes on the short list (`fast`) when the checked path has accepted a plain message for
    it; whatever could change a check's outcome calls `forget_checks`, and the next message is
    checked again. So the fast path tests nothing that has not changed. Queues of topics that store
    a retry once are on a list of their own (`once`), for those who ask the keys of `watched` first,
    where the topic has that number. `excerpts` are of clients of whom more is asked.
    """

    access_key: bytes | None = None  # nobody is asked who he is

    def __init__(self, store: MessageStore, style: AckStyle) -> None:
        self._store = store
        self._style = style
        self._queues: dict[tuple[str, int], TopicQueue] = {}
        self._by_topic = GroupedKeys(self._queues, itemgetter(0))
        self.fast: dict[str, list[TopicQueue | None]] = {}
        self.once: dict[str, list[TopicQueue | None]] = {}
        self.watched: dict[str, tuple[SeenKeys, int]] = {}
        self.excerpts: WeakSet[QueueExcerpt] = WeakSet()
        self.mapped: Container[str] = ()  # topics whose queues are others than requests say

    def get(self, topic: str, queue_id: int) -> TopicQueue:
        """Return the queue, which is made when it is new."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            stored = self._store.queue(topic, queue_id)
            queue = TopicQueue(topic, queue_id, stored, self._style)
            self._by_topic.put((topic, queue_id), queue)
        return queue

    def find(self, topic: str, queue_id: int) -> TopicQueue | None:
        """Return the queue if it was used since the start."""
        return self._queues.get((topic, queue_id))

    def admit(self, queue: TopicQueue, topic: TopicConfig, broker_permission: int) -> None:
        """Put a queue on the short list: a plain message for it has passed every check.

        Not where its topic or the broker is not to be written, nor where topics have rules.
        """
        if not topic.perm & broker_permission & Perm.WRITE or queue.name.startswith("%"):
            return
        if is_compacted(topic) or is_batched(topic) or queue.name in self.mapped:
            return
        lists = self.once if queue.name in self.watched else self.fast
        listed = lists.get(queue.name)
        if listed is None:  # a topic can have thousands that nobody sends to
            queues = max(topic.write_queue_nums, topic.read_queue_nums)
            listed = lists[queue.name] = [None] * queues
        if queue.queue_id < len(listed):
            listed[queue.queue_id] = queue

    def forget_checks(self) -> None:
        """Empty the short list: a topic, a permission or a setting has changed."""
        self.fast.clear()
        self.once.clear()
        for excerpt in self.excerpts:
            excerpt.forget_checks()

    def apply(self, settings: BrokerSettings) -> None:
        """Take settings that were changed at run time."""
        self.forget_checks()
        style = replace(self._style, region=settings.region_id, trace_on=settings.trace_on)
        if style != self._style:
            self._style = style
            for queue in self._queues.values():
                queue.answer_in(style)

    def drop_topic(self, topic: str, release: Callable[["TopicQueue"], None]) -> None:
        """Forget a deleted topic; `release` answers those who wait on its queues."""
        self.fast.pop(topic, None)
        self.once.pop(topic, None)
        for excerpt in self.excerpts:
            excerpt.drop_topic(topic)
        for key in self._by_topic.of(topic):
            queue = self._queues[key]
            self._by_topic.remove(key)
            release(queue)

    def used(self) -> list[TopicQueue]:
        """Return every queue that was used since the start."""
        return list(self._queues.values())
