"""kill -9 of a broker with timed messages under way: each is delivered, once, none too early."""

import asyncio
import json
import random
import time
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
from aerobee.storage import verify

OUTSTANDING = 16
AFTER_MS_MAX = 3000
QUEUES = 2


class TimedLoad:
    """Sends messages for times soon to come until the broker dies, and takes some back."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.acknowledged: set[bytes] = set()  # bodies that must be delivered
        self.recalled: set[bytes] = set()  # bodies that may be
        self.due_ms: dict[bytes, int] = {}
        self.number = 0

    async def run(self, port: int) -> None:
        """Keep messages in flight until the connection ends."""
        async with await RawPeer.connect(port) as peer:
            sent: dict[int, bytes | None] = {}
            try:
                for _ in range(OUTSTANDING):
                    await self._send(peer, sent)
                while True:
                    reply = await peer.read()
                    body = sent.pop(reply.opaque)
                    if body is not None and reply.code == ResponseCode.SUCCESS:
                        self.acknowledged.add(body)
                        handle = reply.ext.get("recallHandle")  # None: its time was over
                        if handle is not None and self.dice.random() < 0.1:
                            await self._recall(peer, sent, body, handle)
                            continue
                    await self._send(peer, sent)
                    await asyncio.sleep(0.001)
            except (OSError, EOFError, AerobeeError):
                return  # killed

    async def _send(self, peer: RawPeer, sent: dict[int, bytes | None]) -> None:
        self.number += 1
        body = b"%d" % self.number
        due_ms = int(time.time() * 1000) + self.dice.randint(50, AFTER_MS_MAX)
        self.due_ms[body] = due_ms
        properties = f"UNIQ_KEY\x01{self.number}\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
        queue_id = self.dice.randrange(QUEUES)
        command = send_command(body, queue_id=queue_id, properties=properties)
        sent[command.opaque] = body
        await peer.send(encode_frame(command))

    async def _recall(
        self, peer: RawPeer, sent: dict[int, bytes | None], body: bytes, handle: str
    ) -> None:
        self.recalled.add(body)
        ext = {"topic": "T", "recallHandle": handle, "producerGroup": "g"}
        command = Command(code=RequestCode.RECALL_MESSAGE, ext=ext, opaque=next_opaque())
        sent[command.opaque] = None
        await peer.send(encode_frame(command))


async def delivered(port: int, due_ms: dict[bytes, int]) -> Counter[bytes]:
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
                    assert record.store_timestamp >= due_ms[bytes(record.body)]
                    offset += 1
    return found


async def until_nothing_waits(port: int, timeout_s: float = 20.0) -> None:
    """Return when every message has had its slot, and every slot its time."""
    async with await RawPeer.connect(port) as peer, asyncio.timeout(timeout_s):
        while True:
            command = Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, opaque=next_opaque())
            table = json.loads(bytes((await peer.request(command)).body))["table"]
            if table["timerOffsetBehind"] == table["timerCongestNum"] == "0":
                command = Command(code=RequestCode.GET_TIMER_METRICS, opaque=next_opaque())
                counts = json.loads(bytes((await peer.request(command)).body))["timingCount"]
                assert counts["T"]["count"] == 0, counts
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_each_timed_message_is_delivered_once(tmp_path: Path, flush: str) -> None:
    """Killed while it stores, waits, delivers and notes; what was acknowledged is there once.

    What was not acknowledged, or taken back, may be there or not, but not twice either.
    """
    load = TimedLoad(drawn())
    broker = KilledBroker(
        tmp_path, flush, recallMessageEnable="true", timerFlushIntervalMs="100",
        mappedFileSizeTimerLog="8192",
    )  # fmt: skip
    for _ in range(ROUNDS):
        broker.start()
        running = asyncio.create_task(load.run(broker.port))
        await a_while(load.dice, 0.2, 2.5, load.acknowledged, 1)
        broker.kill()
        await running
    broker.start()
    try:
        await until_nothing_waits(broker.port)
        found = await delivered(broker.port, load.due_ms)
    finally:
        broker.kill()
    print(f"{len(load.acknowledged)} acknowledged, {len(found)} delivered")
    assert verify.main([str(broker.store), "--log-file-bytes", str(4 << 20)]) == 0
    twice = {body: count for body, count in found.items() if count > 1}
    assert not twice, f"{len(twice)} of {len(found)} came twice"
    lost = load.acknowledged - load.recalled - found.keys()
    assert not lost, f"{len(lost)} of {len(load.acknowledged)} were lost"
