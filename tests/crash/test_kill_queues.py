"""kill -9 of a broker with light and batch queues: each message is at its offset in each."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, a_while, drawn
from support.servers.brokers import pull_command, send_command
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, iter_records
from aerobee.storage.tools.guessing import store_settings
from aerobee.storage.verify import verify

LIGHT = ("%LMQ%a", "%LMQ%b", "%LMQ%c")
GROUP = "%LMQ%g"
Offsets = dict[tuple[str, int], bytes]  # of a topic, to what was acknowledged there


class Load:
    """Sends batches, and messages for some light queues, until the broker dies."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.number = 0
        self.placed: Offsets = {}
        self.named: dict[bytes, tuple[str, ...]] = {}  # every body sent, to its light queues

    async def run(self, port: int) -> None:
        """Send by two connections."""
        await asyncio.gather(self._run(port, self._single), self._run(port, self._batch))

    async def _run(self, port: int, send: Callable[[RawPeer], Awaitable[None]]) -> None:
        try:
            async with await RawPeer.connect(port) as peer:
                while True:
                    await send(peer)
        except (OSError, EOFError, AerobeeError, TimeoutError):
            return  # killed

    def _body(self) -> bytes:
        self.number += 1
        return b"%d-" % self.number + bytes(self.dice.randrange(300))

    async def _single(self, peer: RawPeer) -> None:
        body, names = self._body(), tuple(self.dice.sample(LIGHT, self.dice.randint(1, 3)))
        self.named[body] = names
        text = f"UNIQ_KEY\x01U{self.number}\x02INNER_MULTI_DISPATCH\x01{','.join(names)}\x02"
        reply = await peer.request(send_command(body, topic="t", properties=text))
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        self.placed["t", int(reply.ext["queueOffset"])] = body

    async def _batch(self, peer: RawPeer) -> None:
        bodies = [self._body() for _ in range(self.dice.randint(1, 9))]
        number = self.number
        data = encode_batch(
            BatchedMessage(0, body, f"UNIQ_KEY\x01K{number}-{at}\x02".encode())
            for at, body in enumerate(bodies)
        )
        reply = await peer.request(
            send_command(
                data, topic="b", code=RequestCode.SEND_BATCH_MESSAGE, m="true",
                properties=f"UNIQ_KEY\x01K{number}\x02",
            )
        )  # fmt: skip
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        self.placed["b", int(reply.ext["queueOffset"])] = data


async def prepare(port: int) -> None:
    """Make the topics."""
    fields = {
        "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    async with await RawPeer.connect(port) as peer:
        for topic, attributes in (("t", ""), ("b", "+queue.type=BatchCQ")):
            ext = fields | {"topic": topic, "attributes": attributes}
            made = await peer.request(Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ext))
            assert made.code == ResponseCode.SUCCESS, made.remark


async def read(peer: RawPeer, topic: str) -> list[Record]:
    """Pull a queue from 0 to its end."""
    found: list[Record] = []
    offset = 0
    while True:
        reply = await peer.request(pull_command(offset, topic=topic, consumerGroup=GROUP))
        if reply.code != ResponseCode.SUCCESS:
            assert reply.code == ResponseCode.PULL_NOT_FOUND, (topic, reply.code, reply.remark)
            return found
        found += iter_records(bytes(reply.body))
        offset = int(reply.ext["nextBeginOffset"])


async def check(port: int, load: Load) -> None:
    """See each queue dense, all that was acknowledged in it, and no light queue that lacks one."""
    async with await RawPeer.connect(port) as member, await RawPeer.connect(port) as peer:
        topics = [SubscriptionData(topic=topic, sub_string="*") for topic in ("t", "b", *LIGHT)]
        consumer = ConsumerData(group_name=GROUP, subscription_data_set=topics)
        beat = encode_body(HeartbeatData(client_id="c", consumer_data_set=[consumer]))
        await member.request(Command(code=RequestCode.HEART_BEAT, body=beat))
        singles, batches = await read(peer, "t"), await read(peer, "b")
        light = {name: await read(peer, name) for name in LIGHT}
    found = {("t", record.queue_offset): record.body for record in singles}
    found |= {("b", record.queue_offset): record.body for record in batches}
    lost = {place for place, body in load.placed.items() if found.get(place) != body}
    assert not lost, f"{len(lost)} of {len(load.placed)} are lost"
    assert [record.queue_offset for record in singles] == list(range(len(singles)))
    assert max(Counter(bytes(record.body) for record in (*singles, *batches)).values()) == 1
    end = 0
    for record in batches:
        assert record.queue_offset == end, "offsets of batches are dense"
        end += int(parse_properties(record.properties)["INNER_NUM"])
    for name, records in light.items():
        assert [record.queue_offset for record in records] == [
            record.queue_offset for record in singles if name in load.named[bytes(record.body)]
        ], name
        for offset, record in enumerate(records):
            properties = parse_properties(record.properties)
            names = properties["INNER_MULTI_DISPATCH"].split(",")
            offsets = properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
            assert int(offsets[names.index(name)]) == offset, "where the record says that it is"


@pytest.mark.timeout(60 + 20 * ROUNDS)
async def test_each_message_is_at_its_offset_in_each_queue(tmp_path: Path) -> None:
    """Entries of several queues, and of several offsets, are of one record, and made anew of it."""
    load = Load(drawn())
    flush = load.dice.choice(["ASYNC_FLUSH", "SYNC_FLUSH"])
    broker = KilledBroker(tmp_path, flush, enableLmq="true", enableMultiDispatch="true")
    broker.start()
    await prepare(broker.port)
    for _ in range(ROUNDS):
        running = asyncio.create_task(load.run(broker.port))
        await a_while(load.dice, 0.1, 0.6, load.placed, 1)
        broker.kill()
        await running
        await asyncio.to_thread(broker.start)
        await check(broker.port, load)
    assert await asyncio.to_thread(broker.stop) == 0
    assert not verify(store_settings(broker.store)).problems
