"""Members that say anything at any time, beside a group that works: it gets each message once."""

import asyncio
import random
from collections import Counter
from typing import Any, Final

import msgspec
import pytest
from support.raw_peer import RawPeer
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.testing import EmbeddedCluster

LASTS_S: Final = 4.0
PEERS: Final = 8
TOPIC: Final = "T"
NAMES: Final = (
    "G", "G", "G", "g2", "%RETRY%G", "", "x" * 9000, "a\nb", "\0", "%s%(x)d", "../../etc", "名",
)  # fmt: skip
IDS: Final = ("c1", "c1", "c2", "127.0.0.1@1#2", "", "\n", "x" * 900)
NUMBERS: Final[tuple[object, ...]] = (
    0,
    0,
    1,
    2,
    3,
    -1,
    7,
    2**31 - 1,
    2**31,
    2**63,
    -(2**63),
    "x",
    None,
    1.5,
    [],
    True,
)
MESSAGES: Final = 300

FLAG_REPLY: Final = 1


class Hostile:
    """Draws what members of groups send, and what they answer when they are asked."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._number = 0

    def command(self) -> Command:
        """One request of the kinds that change who owns what."""
        draw = self.dice.choice
        self._number += 1
        fields: dict[str, Any] = {
            "consumerGroup": draw(NAMES),
            "group": draw(NAMES),
            "topic": draw((TOPIC, TOPIC, TOPIC, *NAMES)),
            "queueId": draw(NUMBERS),
            "commitOffset": draw(NUMBERS),
            "queueOffset": draw(NUMBERS),
            "maxMsgNums": draw(NUMBERS),
            "suspendTimeoutMillis": draw((0, 100, 15_000, 2**62)),
            "sysFlag": self.dice.randrange(64),
            "subVersion": draw(NUMBERS),
            "clientID": draw(IDS),
            "producerGroup": draw(NAMES),
        }
        code, body = draw(
            (
                (RequestCode.HEART_BEAT, self._heartbeat),
                (RequestCode.HEART_BEAT, self._heartbeat),
                (RequestCode.UNREGISTER_CLIENT, bytes),
                (RequestCode.GET_CONSUMER_LIST_BY_GROUP, bytes),
                (RequestCode.QUERY_CONSUMER_OFFSET, bytes),
                (RequestCode.QUERY_CONSUMER_OFFSET, bytes),
                (RequestCode.UPDATE_CONSUMER_OFFSET, bytes),
                (RequestCode.PULL_MESSAGE, bytes),
                (RequestCode.LOCK_BATCH_MQ, self._locks),
                (RequestCode.UNLOCK_BATCH_MQ, self._locks),
            )
        )
        ext = {key: str(value) for key, value in fields.items() if value is not None}
        return Command(code=code, ext=ext, body=body(), opaque=self._number)

    def _heartbeat(self) -> bytes:
        draw = self.dice.choice
        consumers = [
            {
                "groupName": draw(NAMES),
                "consumeType": draw(("CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "?", 5)),
                "messageModel": draw(("CLUSTERING", "CLUSTERING", "BROADCASTING", None)),
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "unitMode": draw((True, False)),
                "handoverTimeoutMillis": draw((None, 0, 300, -5, 2**62, "x")),
                "subscriptionDataSet": [
                    {"topic": draw((TOPIC, TOPIC, *NAMES)), "subString": draw(("*", "a||", "")),
                     "subVersion": draw(NUMBERS), "expressionType": draw(("TAG", "SQL92", None)),
                     "tagsSet": [], "codeSet": draw(([], [1], ["x"])), "classFilterMode": False}
                    for _ in range(self.dice.randrange(3))
                ],
            }
            for _ in range(self.dice.randrange(4))
        ]  # fmt: skip
        data = {"clientID": draw(IDS), "consumerDataSet": consumers, "producerDataSet": []}
        return self._spoilt(msgspec.json.encode(data))

    def _locks(self) -> bytes:
        draw = self.dice.choice
        queues = [
            {"topic": draw((TOPIC, *NAMES)), "brokerName": "broker-a", "queueId": draw(NUMBERS)}
            for _ in range(self.dice.randrange(4))
        ]
        body = {"consumerGroup": draw(NAMES), "clientId": draw(IDS), "mqSet": queues * 2}
        return self._spoilt(msgspec.json.encode(body))

    def answers(self, asked: Command) -> list[Command]:
        """What comes back when the broker asks: nothing, lies, rubbish, all of it twice."""
        table = {"mqTable": {}, "properties": {"PROP_THREADPOOL_CORE_SIZE": "-1"}}
        body = self.dice.choice((b"", b"{", b"[]", msgspec.json.encode(table), b"\xff" * 2_000_000))
        opaque = asked.opaque + self.dice.choice((0, 0, 0, 1, -1))
        reply = Command(code=self.dice.choice((0, 1, -7)), opaque=opaque, flag=1, body=body)
        return [reply] * self.dice.randrange(3)

    def _spoilt(self, body: bytes) -> bytes:
        if self.dice.random() < 0.1:
            return body[: self.dice.randrange(len(body) + 1)]
        return body


async def pester(broker: Broker, hostile: Hostile, ends_s: float) -> None:
    """Connect, say many things, answer some questions, and go, again and again."""
    loop = asyncio.get_running_loop()
    while loop.time() < ends_s:
        async with await RawPeer.connect(broker.port) as peer:

            async def listen(peer: RawPeer) -> None:
                while True:
                    command = await peer.read(60)
                    if not command.flag & FLAG_REPLY:
                        for each in hostile.answers(command):
                            await peer.send(encode_frame(each))

            listening = asyncio.create_task(listen(peer))
            until_s = min(ends_s, loop.time() + hostile.dice.uniform(0.0, 1.5))
            while loop.time() < until_s and not listening.done():
                for _ in range(hostile.dice.randrange(1, 6)):
                    peer.writer.write(encode_frame(hostile.command()))
                await asyncio.sleep(hostile.dice.choice((0.0, 0.001, 0.02)))
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.parametrize("seed", [1, 2])
async def test_hostile_members_disturb_no_other_group(seed: int) -> None:
    """They change who owns what, while the waits are changed, too; when they go nothing is left."""
    got: Counter[bytes] = Counter()
    hostile, loop = Hostile(seed), asyncio.get_running_loop()

    async def handle(message: ReceivedMessage) -> None:
        got[message.body] += 1

    async def change_waits(broker: Broker) -> None:
        while True:
            waits = {
                "handover_wait_millis": hostile.dice.choice((0, 300, 2000)),
                "handover_drain_millis": hostile.dice.choice((0, 300, 2000)),
            }
            broker.live.change(broker.settings.model_copy(update=waits))
            await asyncio.sleep(hostile.dice.uniform(0.0, 0.5))

    async with EmbeddedCluster() as cluster:
        (broker,) = cluster.brokers
        consumer = PushConsumer(
            "work", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe(TOPIC, handle)
        async with Producer(namesrv=cluster.namesrv_addr) as producer, consumer:
            ends_s = loop.time() + LASTS_S
            changing = asyncio.create_task(change_waits(broker))
            pestering = [asyncio.create_task(pester(broker, hostile, ends_s)) for _ in range(PEERS)]
            for number in range(MESSAGES):
                await producer.send(Message(TOPIC, b"%d" % number))
                await asyncio.sleep(LASTS_S / MESSAGES)
            await asyncio.gather(*pestering)
            changing.cancel()
            await until(lambda: len(got) == MESSAGES, what="all messages are handled")
        assert set(got.values()) == {1}
        context = broker.context
        assert context.health.faults.counts == {}
        handovers, members = context.consumers.handovers, context.consumers.members

        def left() -> list[object]:
            return [
                handovers.owned,
                handovers.waiting,
                list(members.groups()),
                context.pulls.holds.count,
            ]

        await until(lambda: not any(left()), what="nothing is left of anybody")
