"""kill -9 of a broker between storing and answering: what is sent again is stored once."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from support.features.dedup import batch, send, stored, unique_key, watch
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, a_while, drawn
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.frame import encode_frame

OUTSTANDING = 32
QUEUES = 4


class Load:
    """Sends messages until the broker dies, and those without an answer to the next one again."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.number = 0
        self.unanswered: list[list[str]] = []  # keys of a request each
        self.acknowledged: set[str] = set()
        self.duplicates = 0

    def _request(self) -> list[str]:
        """Return the keys of the next request: an old one, or one that is new."""
        if self.unanswered:
            return self.unanswered.pop(0)
        count = self.dice.choice((1, 1, 1, 3))
        self.number += count
        return [unique_key(self.number - at) for at in range(count)]

    def _command(self, keys: list[str]) -> Command:
        queue_id = self.dice.randrange(QUEUES)  # a client's retry goes elsewhere
        if len(keys) > 1:
            return batch(keys, queue_id=queue_id)
        return send(keys[0], keys[0].encode(), queue_id=queue_id)

    async def run(self, port: int, *, last: bool = False) -> None:
        """Keep requests in flight until the connection ends, or the `last` has its answer."""
        sent: dict[int, list[str]] = {}
        try:
            async with await RawPeer.connect(port) as peer:
                while True:
                    while len(sent) < OUTSTANDING and (self.unanswered or not last):
                        keys = self._request()
                        command = self._command(keys)
                        sent[command.opaque] = keys
                        await peer.send(encode_frame(command))
                    if not sent:
                        return
                    reply = await peer.read()
                    keys = sent.pop(reply.opaque)
                    if reply.code == ResponseCode.SUCCESS:
                        self.acknowledged.update(keys)
                        self.duplicates += "DUPLICATE" in reply.ext
                    else:
                        self.unanswered.append(keys)
                    await asyncio.sleep(0)
        except (OSError, EOFError, AerobeeError):
            assert not last
        finally:
            self.unanswered += sent.values()  # stored or not: nobody knows


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_each_message_is_stored_once(tmp_path: Path, flush: str) -> None:
    """Whatever its producer was told, or not told, before the broker died."""
    load = Load(drawn())
    broker = KilledBroker(tmp_path, flush)
    for number in range(ROUNDS):  # of which one loses answers
        broker.start()
        if not number:
            async with await RawPeer.connect(broker.port) as peer:
                await watch(peer, seconds=3000)
        running = asyncio.create_task(load.run(broker.port))
        await a_while(load.dice, 0.1, 0.8, load.acknowledged, 1)
        broker.kill()
        await running
    broker.start()
    try:
        await load.run(broker.port, last=True)
        async with await RawPeer.connect(broker.port) as peer:
            found = Counter(bytes(record.body).decode() for record in await stored(peer))
    finally:
        broker.kill()
    print(f"{len(load.acknowledged)} acknowledged, {load.duplicates} were there already")
    assert not load.unanswered
    assert load.duplicates, "answers were lost"
    assert found == dict.fromkeys(load.acknowledged, 1)
