"""A producer's messages that have a time of their own; some of them are taken back."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from aerobee.client import Message, Producer, SendResult
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.words import TIMER_TOPIC
from simulation.judge.attempts import Place
from simulation.judge.ledger import Ledger
from simulation.producing.waits import SKEW_S, Recall
from simulation.stage.world import World

if TYPE_CHECKING:
    from simulation.servers import BrokerNode

AFTER_S: Final = (0.3, 25.0)
RECALLED_SHARE: Final = 0.3


class TimedSends:
    """Sends messages for a time to come, and takes a share of them back before it."""

    def __init__(
        self, world: World, ledger: Ledger, brokers: "list[BrokerNode]", name: str
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._brokers = {each.name: each for each in brokers}
        self._name = name
        self.dice = Random(f"times of {name} {world.seed}")
        self._sent = 0

    async def send(self, producer: Producer, topic: str) -> None:
        """Send one, at the one broker that its key chooses, and see to the rest of its life."""
        self._sent += 1
        body = b"%s-timed-%d" % (self._name.encode(), self._sent)
        waits = self._ledger.waits
        after_s, recalled = self.dice.uniform(*AFTER_S), self.dice.random() < RECALLED_SHARE
        waits.topics[body] = topic
        waits.earliest_s[body] = self._world.loop.time() + after_s - SKEW_S
        delay = timedelta(seconds=round(after_s, 3))
        try:
            if self.dice.random() < 0.5:
                sent = await producer.send(Message(topic, body), key=self._sent, delay=delay)
            else:
                at = datetime.fromtimestamp(time.time(), UTC) + delay
                sent = await producer.send(Message(topic, body), key=self._sent, deliver_at=at)
        except AerobeeError as error:
            self._world.trace.note(f"{self._name} could not time: {type(error).__name__}")
            return
        if not sent.recall_handle:  # by the broker's clock its time had come
            queue = sent.queue
            place = Place(queue.topic, queue.broker_name, queue.queue_id)
            self._ledger.acknowledge(body, place, sent.queue_offset)
            return
        place = Place(TIMER_TOPIC, sent.queue.broker_name, 0)
        self._ledger.wait(body, topic, place, sent.queue_offset)
        self._world.trace.note(f"{body.decode()} waits {after_s:.3f} s")
        if recalled:
            await asyncio.sleep(self.dice.uniform(0, after_s))
            await self._recall(producer, sent, body)

    async def _recall(self, producer: Producer, sent: SendResult, body: bytes) -> None:
        """Take a message back; whether it is demanded is decided by the answer."""
        waits, node = self._ledger.waits, self._brokers[sent.queue.broker_name]
        lives = node.lives
        waits.doubtful.add(body)
        try:
            await producer.recall(sent)
        except AerobeeError as error:
            self._world.trace.note(f"{self._name} could not recall: {type(error).__name__}")
            return
        if node.up and node.lives == lives and body in waits.doubtful:
            waits.doubtful.discard(body)
            self._world.trace.note(f"{self._name} recalled {body.decode()}")
            waits.recalled[body] = Recall(node.name, node.broker.store.commit_log.committed)
