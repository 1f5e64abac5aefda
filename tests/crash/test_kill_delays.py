"""kill -9 of a broker with delayed messages under way: each is delivered, and delivered once."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, a_while, drawn
from support.servers.brokers import pull_command, send_command
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records

LEVELS = "1s 2s 1s"
OUTSTANDING = 16
QUEUES = 2
GROUP = "g"
BACK = b"back-"  # in front of the bodies of plain messages, which are sent back
TOPICS = ("T", f"%RETRY%{GROUP}")


class Load:
    """Sends delayed messages, and plain ones back, until the broker dies; knows the outcome."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.acknowledged: set[bytes] = set()  # bodies that must be delivered
        self.number = 0

    def _delayed(self) -> tuple[bytes, Command]:
        self.number += 1
        body = b"%d" % self.number
        level = self.dice.randint(1, 3)
        properties = f"UNIQ_KEY\x01{self.number}\x02DELAY\x01{level}\x02"
        return body, send_command(body, queue_id=self.dice.randrange(QUEUES), properties=properties)

    async def run(self, port: int) -> None:
        """Keep messages in flight until the connection ends."""
        async with await RawPeer.connect(port) as peer:
            sent: dict[int, bytes] = {}
            try:
                for _ in range(OUTSTANDING):
                    await self._send(peer, sent)
                while True:
                    reply = await peer.read()
                    body = sent.pop(reply.opaque)
                    if reply.code == ResponseCode.SUCCESS and "msgId" not in reply.ext:
                        self.acknowledged.add(body)  # sent back
                    elif reply.code == ResponseCode.SUCCESS and body.startswith(BACK):
                        await self._send_back(peer, sent, body, reply)
                        continue
                    elif reply.code == ResponseCode.SUCCESS:
                        self.acknowledged.add(body)
                    await self._send(peer, sent)
                    await asyncio.sleep(0.001)
            except (OSError, EOFError, AerobeeError):
                return  # killed

    async def _send(self, peer: RawPeer, sent: dict[int, bytes]) -> None:
        body, command = self._delayed()
        if self.dice.random() < 0.2:
            body = BACK + body
            command = send_command(body, topic="Plain")
        sent[command.opaque] = body
        await peer.send(encode_frame(command))

    async def _send_back(
        self, peer: RawPeer, sent: dict[int, bytes], body: bytes, reply: Command
    ) -> None:
        """Send a plain message back that was just stored."""
        position = int(reply.ext["msgId"][-16:], 16)
        ext = {"offset": str(position), "group": GROUP, "delayLevel": "1"}
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        command = Command(code=code, ext=ext, opaque=next_opaque())
        sent[command.opaque] = body
        await peer.send(encode_frame(command))


async def delivered(port: int) -> Counter[bytes]:
    """Count every message that consumers can see, by body."""
    found: Counter[bytes] = Counter()
    async with await RawPeer.connect(port) as peer:
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                offset = 0
                while True:
                    reply = await peer.request(pull_command(offset, topic=topic, queue_id=queue_id))
                    if reply.code != ResponseCode.SUCCESS:
                        break
                    for record in iter_records(bytes(reply.body)):
                        found[bytes(record.body)] += 1
                        offset += 1
    return found


async def until_nothing_waits(port: int, timeout_s: float = 20.0) -> None:
    """Return when every level has delivered all that its queue holds."""
    async with await RawPeer.connect(port) as peer, asyncio.timeout(timeout_s):
        while True:
            command = Command(code=RequestCode.GET_ALL_DELAY_OFFSET, opaque=next_opaque())
            offsets = bytes((await peer.request(command)).body)
            waiting = 0
            for queue_id in range(len(LEVELS.split())):
                ext = {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": str(queue_id)}
                command = Command(code=RequestCode.GET_MAX_OFFSET, ext=ext, opaque=next_opaque())
                end = int((await peer.request(command)).ext["offset"])
                waiting += b"%d:%d" % (queue_id + 1, end) not in offsets
            if not waiting:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_each_delayed_message_is_delivered_once(tmp_path: Path, flush: str) -> None:
    """Killed while it stores, waits and delivers; what was acknowledged is there once in the end.

    What was not acknowledged may be there or not, but not twice either.
    """
    load = Load(drawn())
    broker = KilledBroker(tmp_path, flush, messageDelayLevel=LEVELS)
    for _ in range(ROUNDS):
        broker.start()
        running = asyncio.create_task(load.run(broker.port))
        # deliveries begin after a second
        await a_while(load.dice, 0.2, 1.8, load.acknowledged, 1)
        broker.kill()
        await running
    broker.start()
    try:
        await until_nothing_waits(broker.port)
        found = await delivered(broker.port)
    finally:
        broker.kill()
    print(f"{len(load.acknowledged)} acknowledged, {len(found)} delivered")
    twice = {body: count for body, count in found.items() if count > 1}
    assert not twice, f"{len(twice)} of {len(found)} came twice"
    lost = load.acknowledged - found.keys()
    assert not lost, f"{len(lost)} of {len(load.acknowledged)} were lost"
