"""kill -9 of a broker that copies and compacts: every key has its latest acknowledged value."""

import asyncio
import random
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, a_while, drawn
from support.servers.brokers import pull_command, send_command
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.record import Record, iter_records
from aerobee.storage.tools.guessing import store_settings
from aerobee.storage.verify import verify

KEYS = 12
SMALL = {
    "compactionMappedFileSize": "11500",
    "compactionCqMappedFileSize": "2300",
    "compactionScheduleInternal": "100",
}


class Stored:
    """What came to lie at each offset, as far as anybody was told, and the latest of each key."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.latest: dict[bytes, int] = {}

    def note(self, offset: int, body: bytes) -> None:
        """Take note of a message that was acknowledged, or is there."""
        assert self.bodies.setdefault(offset, body) == body
        key = body.split()[0]
        self.latest[key] = max(offset, self.latest.get(key, offset))


async def make_topic(peer: RawPeer) -> None:
    """Make the topic of one queue."""
    fields = {
        "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": "+cleanup.policy=COMPACTION",
    }  # fmt: skip
    reply = await peer.request(Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields))
    assert reply.code == ResponseCode.SUCCESS


async def load(port: int, dice: random.Random, stored: Stored) -> None:
    """Send values of some keys, one after the other, until the connection ends."""
    number = 0
    try:
        async with await RawPeer.connect(port) as peer:
            while True:
                number += 1
                key = f"k{dice.randrange(KEYS)}"
                body = b"%s %d" % (key.encode(), dice.getrandbits(40))
                properties = f"UNIQ_KEY\x01{number}\x02KEYS\x01{key}\x02"
                reply = await peer.request(send_command(body, properties=properties))
                assert reply.code == ResponseCode.SUCCESS, reply.remark
                stored.note(int(reply.ext["queueOffset"]), body)
    except (OSError, EOFError, AerobeeError, TimeoutError):
        return


async def read(port: int) -> list[Record]:
    """Pull the queue from 0 to its end."""
    found: list[Record] = []
    offset = 0
    async with await RawPeer.connect(port) as peer:
        while True:
            reply = await peer.request(pull_command(offset))
            found += iter_records(bytes(reply.body))
            if reply.code == ResponseCode.PULL_NOT_FOUND:
                return found
            assert int(reply.ext["nextBeginOffset"]) > offset
            offset = int(reply.ext["nextBeginOffset"])


def check(found: list[Record], stored: Stored) -> None:
    """See every key's latest, each offset once, and of each what was sent there.

    It costs what is there and not what has ever been: the queue is about as long after each round.
    """
    offsets = [record.queue_offset for record in found]
    assert offsets == sorted(set(offsets))
    for record in found:
        stored.note(record.queue_offset, record.body)  # also what was never acknowledged
    assert {*stored.latest.values()} <= {*offsets}


@pytest.mark.timeout(60 + 20 * ROUNDS)
async def test_the_latest_of_each_key_outlives_kills(tmp_path: Path) -> None:
    """Copies, rounds and their notes are cut short wherever they are."""
    dice = drawn()
    broker = KilledBroker(tmp_path, "ASYNC_FLUSH", **SMALL)
    stored = Stored()
    broker.start()
    async with await RawPeer.connect(broker.port) as peer:
        await make_topic(peer)
    for _ in range(ROUNDS):
        running = asyncio.create_task(load(broker.port, dice, stored))
        await a_while(dice, 0.5, 1.3, stored.bodies, 3 * KEYS)
        broker.kill()
        await running
        await asyncio.to_thread(broker.start)
        check(await read(broker.port), stored)
    async with asyncio.timeout(30):
        left = await read(broker.port)
        while len(left) >= len(stored.bodies):  # until a round has taken place
            await asyncio.sleep(0.1)
            left = await read(broker.port)
    assert await asyncio.to_thread(broker.stop) == 0
    assert not verify(store_settings(broker.store)).problems
