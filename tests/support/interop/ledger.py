"""Writes messages of many shapes and remembers them, so that a reader can be held to every one."""

import random
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from support.interop.cluster import Cluster
from support.interop.raw_messages import (
    create_topic,
    offset_of,
    read_queue,
    send,
    wait_for_end,
    wait_for_route,
)
from support.interop.raw_remoting import RawClient

SYSTEM_BUSY: Final = 2

COMPRESSED: Final = 1


@dataclass(slots=True)
class Ledger:
    """What was acknowledged, by topic and queue, in the order of the queue.

    `topics` maps a name to its number of queues; `seed` decides bodies and properties.
    """

    topics: dict[str, int]
    seed: int
    written: dict[tuple[str, int], list[tuple[bytes, str, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def create(self, cluster: Cluster) -> None:
        """Create the topics and wait until they can be found."""
        for topic, queues in self.topics.items():
            create_topic(cluster.broker, topic, queues)
            wait_for_route(cluster.namesrv, topic)

    def write(self, cluster: Cluster, count: int) -> None:
        """Send `count` messages; each is remembered once it is acknowledged with its offset."""
        with RawClient(cluster.broker) as client:
            for _ in range(count):
                self._write_one(client)

    def _write_one(self, client: RawClient) -> None:
        topic = self._random.choice(list(self.topics))
        queue = self._random.randrange(self.topics[topic])
        queue_messages = self.written[topic, queue]
        body = self._random.randbytes(self._random.choice([1, 100, 1024, 3000]))
        tags, keys = self._random.choice([("", ""), ("TagA", "k1 k2"), ("Prüfung", "ключ")])
        properties = {"UNIQ_KEY": f"{self._random.getrandbits(128):032X}"}
        if tags:
            properties |= {"TAGS": tags, "KEYS": keys}
        compressed = self._random.random() < 0.2
        sent = zlib.compress(body) if compressed else body
        flag = COMPRESSED if compressed else 0
        deadline = time.monotonic() + 60
        while True:  # a disk that is busy has a send refused, and nothing stored
            answer = send(client, topic, queue, sent, properties, sys_flag=flag)
            if answer.code != SYSTEM_BUSY or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        assert answer.code == 0, f"seed {self.seed}: {answer}"
        assert int(answer.ext["queueOffset"]) == len(queue_messages), f"seed {self.seed}: {answer}"
        queue_messages.append((body, tags, keys))

    def check(self, cluster: Cluster) -> None:
        """Read every queue from its first to its last message and compare all of it.

        Of ours all is there with the answer, RocketMQ tells readers a moment later.
        """
        with RawClient(cluster.broker) as client:
            for topic, queues in self.topics.items():
                for queue in range(queues):
                    if cluster.name == "rocketmq":
                        wait_for_end(client, topic, queue, len(self.written[topic, queue]))
                    self._check_queue(client, topic, queue)

    def _check_queue(self, client: RawClient, topic: str, queue: int) -> None:
        place = f"seed {self.seed}: {topic} queue {queue}"
        expected = self.written[topic, queue]
        assert offset_of(client, 30, topic, queue) == len(expected), place
        read = read_queue(client, topic, queue)
        assert [message.queue_offset for message in read] == list(range(len(expected))), place
        contents = [
            (m.body, m.properties.get("TAGS", ""), m.properties.get("KEYS", "")) for m in read
        ]
        assert contents == expected, place
