"""What a producer can ask for beyond a send: a transaction, a time, a retry that is stored once."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionListener,
    TransactionProducer,
    TransactionState,
)
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError, Unavailable
from aerobee.testing.cluster import EmbeddedCluster

TOPIC: Final = "DemoFeatures"
DEDUP: Final = {"aerobee.dedup.seconds": "60"}
DELAY_MS: Final = 700
ARRIVES_TIMEOUT_S: Final = 10.0
SILENCE_S: Final = 0.3  # for so long nothing comes that must not


class Bookkeeper(TransactionListener):
    """Is asked where the broker was not told how a transaction ended; here it always is."""

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Nobody knows."""
        return TransactionState.UNKNOWN


class FeatureStory:
    """Shows one feature after the other; `tell` hears what happens, `facts` are for the balance."""

    def __init__(self, cluster: EmbeddedCluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._tell = tell
        self._came: Counter[bytes] = Counter()
        self._came_s: dict[bytes, float] = {}
        self.facts: list[tuple[str, str]] = []

    async def run(self) -> None:
        """Send each to a topic of their own, whose consumer says what came."""
        namesrv = self._cluster.namesrv_addr
        async with Cluster(namesrv) as cluster:
            await cluster.create_topic(TOPIC, 1, attributes=DEDUP)
        consumer = PushConsumer(
            "demo-features",
            namesrv=namesrv,
            client=ClientSettings(instance_name="features"),
            consume_from=ConsumeFrom.FIRST,
        )
        consumer.subscribe(TOPIC, self._handle)
        async with consumer:
            await self._transaction(namesrv)
            async with Producer("demo-timer", namesrv=namesrv) as producer:
                await self._delay(producer)
                await self._retry(producer)

    async def _handle(self, message: ReceivedMessage) -> None:
        self._came_s.setdefault(bytes(message.body), time.monotonic())
        self._came[bytes(message.body)] += 1

    async def _transaction(self, namesrv: str) -> None:
        """Commit one, and roll another one back by an exception."""
        self._tell("a transaction is committed, another one rolled back")
        async with TransactionProducer(
            "demo-transactions", namesrv=namesrv, listener=Bookkeeper()
        ) as producer:
            async with producer.transaction(Message(TOPIC, b"committed")):
                pass  # a database does its part here
            try:
                async with producer.transaction(Message(TOPIC, b"rolled back")):
                    raise ValueError("the account is empty")
            except ValueError:
                pass
            await self._arrives(b"committed")
            await asyncio.sleep(SILENCE_S)
        seen = self._came[b"committed"], self._came[b"rolled back"]
        self.facts.append(("committed and rolled back, seen", f"{seen[0]} and {seen[1]}"))

    async def _delay(self, producer: Producer) -> None:
        """Have a message wait."""
        self._tell(f"a message is to come in {DELAY_MS} ms")
        began_s = time.monotonic()
        await producer.send(Message(TOPIC, b"later"), delay=timedelta(milliseconds=DELAY_MS))
        await self._arrives(b"later")
        came_ms = (self._came_s[b"later"] - began_s) * 1000
        self.facts.append((f"delayed by {DELAY_MS} ms, came after", f"{came_ms:,.0f} ms"))

    async def _retry(self, producer: Producer) -> None:
        """Lose the broker's answer once, so that the producer sends again."""
        self._tell("the answer to a send is lost: the producer tries again")
        attempts = 0

        def lose_first(event: object) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise RequestError(ResponseCode.SYSTEM_ERROR, "the answer is lost")

        self._cluster.brokers[0].hooks.add(before_send=None, after_send=lose_first)
        await producer.send(Message(TOPIC, b"once"))
        await self._arrives(b"once")
        await asyncio.sleep(SILENCE_S)
        self.facts.append(
            (f"sent {attempts} times for a lost answer, stored", f"{self._came[b'once']} time")
        )

    async def _arrives(self, body: bytes) -> None:
        ends_s = time.monotonic() + ARRIVES_TIMEOUT_S
        while not self._came[body]:
            if time.monotonic() > ends_s:
                raise Unavailable(f"{body.decode()!r} did not come in {ARRIVES_TIMEOUT_S:g} s")
            await asyncio.sleep(0.01)
