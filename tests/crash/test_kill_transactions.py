"""kill -9 of a broker with transactions under way: what is committed is there once, else never."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from support.features.transactions import (
    COMMIT,
    HALF,
    ROLLBACK,
    end_command,
    half_command,
    producer_beat,
)
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, a_while, drawn
from support.servers.brokers import pull_command
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import decode_record, iter_records

OUTSTANDING = 16
QUEUES = 2
SOON = {"transactionTimeOut": "200", "transactionCheckInterval": "300", "transactionCheckMax": "99"}
SYSTEM_GROUP = "CID_RMQ_SYS_TRANS"


def decision(body: bytes) -> int:
    """What its producer decides about a message, whenever it is asked."""
    return ROLLBACK if body.endswith(b"r") else COMMIT


class Producer:
    """Begins transactions, ends most of them and some twice, and answers checks of the others."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.acknowledged: set[bytes] = set()  # half messages that were taken
        self.asked = 0
        self.number = 0

    async def run(self, port: int, *, begins: bool = True) -> None:
        """Keep transactions in flight until the connection ends; else answer checks alone."""
        with suppress(OSError, EOFError, AerobeeError):  # killed
            async with await RawPeer.connect(port) as peer:
                sent: dict[int, bytes] = {}
                await peer.send(encode_frame(producer_beat()))
                for _ in range(OUTSTANDING if begins else 0):
                    await self._begin(peer, sent)
                while True:
                    await self._serve(peer, await peer.read(60), sent)

    async def _serve(self, peer: RawPeer, command: Command, sent: dict[int, bytes]) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and not command.is_response:
            self.asked += 1
            outcome = decision(decode_record(command.body).body)
            answer = end_command(command.ext, outcome, checked=True, oneway=True)
            await peer.send(encode_frame(answer))
            return
        body = sent.pop(command.opaque, None)
        if body is None:
            return  # of an END, or of the heartbeat
        if command.code == ResponseCode.SUCCESS:
            self.acknowledged.add(body)
            await self._end(peer, command, decision(body))
        await self._begin(peer, sent)
        await asyncio.sleep(0.001)

    async def _begin(self, peer: RawPeer, sent: dict[int, bytes]) -> None:
        self.number += 1
        body = b"%d%c" % (self.number, self.dice.choice(b"ccr"))
        queue_id = self.dice.randrange(QUEUES)
        command = half_command(body, e=str(queue_id))
        sent[command.opaque] = body
        await peer.send(encode_frame(command))

    async def _end(self, peer: RawPeer, half: Command, outcome: int) -> None:
        """Say it once, twice, or not at all."""
        times = self.dice.choice([0, 1, 1, 1, 1, 2])
        ends = [end_command(half.ext, outcome, oneway=self.dice.random() < 0.7)] * times
        await peer.send(b"".join(map(encode_frame, ends)))


async def visible(port: int) -> Counter[bytes]:
    """Count every message that consumers can see, by body."""
    found: Counter[bytes] = Counter()
    async with await RawPeer.connect(port) as peer:
        for queue_id in range(QUEUES):
            offset = 0
            while True:
                reply = await peer.request(pull_command(offset, queue_id=queue_id))
                if reply.code != ResponseCode.SUCCESS:
                    break
                for record in iter_records(bytes(reply.body)):
                    found[bytes(record.body)] += 1
                    offset += 1
    return found


async def until_nothing_is_open(port: int, timeout_s: float = 30.0) -> None:
    """Return when the noted progress has reached the end of the half topic."""
    async with await RawPeer.connect(port) as peer, asyncio.timeout(timeout_s):
        while True:
            ext = {"topic": HALF, "queueId": "0"}
            end = await peer.request(Command(RequestCode.GET_MAX_OFFSET, ext, opaque=next_opaque()))
            ext |= {"consumerGroup": SYSTEM_GROUP}
            code = RequestCode.QUERY_CONSUMER_OFFSET
            done = await peer.request(Command(code, ext, opaque=next_opaque()))
            if done.ext.get("offset") == end.ext["offset"]:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_each_transaction_ends_once(tmp_path: Path, flush: str) -> None:
    """Killed while halves are stored, ended, checked; checks decide about what was left open.

    A half message that was not acknowledged may have been stored, and then ends by its check.
    """
    producer = Producer(drawn())
    broker = KilledBroker(tmp_path, flush, **SOON)
    for _ in range(ROUNDS):
        broker.start()
        running = asyncio.create_task(producer.run(broker.port))
        await a_while(producer.dice, 0.2, 1.5, producer.acknowledged, 1)
        broker.kill()
        await running
    broker.start()
    answering = asyncio.create_task(producer.run(broker.port, begins=False))
    try:
        await until_nothing_is_open(broker.port)
        found = await visible(broker.port)
    finally:
        broker.kill()
        await answering
    print(f"{len(producer.acknowledged)} begun, {len(found)} seen, {producer.asked} asked about")
    assert producer.asked, "somebody was asked"
    twice = {body: count for body, count in found.items() if count > 1}
    assert not twice, f"{len(twice)} of {len(found)} came twice"
    assert not [body for body in found if decision(body) == ROLLBACK]
    lost = {body for body in producer.acknowledged if decision(body) == COMMIT} - found.keys()
    assert not lost, f"{len(lost)} of {len(producer.acknowledged)} were lost"
