"""kill -9 of a broker that indexes: every acknowledged message is found by its keys, none twice."""

import asyncio
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, a_while, drawn
from support.servers.brokers import send_command
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.record import iter_records
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.checking import shape_of
from aerobee.storage.features.index.files import index_names
from aerobee.storage.tools.guessing import store_settings
from aerobee.storage.verify import verify

ASKED = 60  # keys of each round, of all rounds
FILLED = 600  # messages with three entries each: more than a file takes
SMALL = {"maxHashSlotNum": "500", "maxIndexNum": "1500", "mapedFileSizeCommitLog": str(1 << 20)}


async def load(port: int, prefix: str, stored: list[str]) -> None:
    """Send messages with three keys, one after the other, until the connection ends."""
    number = 0
    try:
        async with await RawPeer.connect(port) as peer:
            while True:
                number += 1
                key = f"{prefix}-{number}"
                text = f"UNIQ_KEY\x01U{key}\x02KEYS\x01{key} every\x02TAGS\x01A\x02"
                reply = await peer.request(send_command(key.encode(), properties=text))
                assert reply.code == ResponseCode.SUCCESS, reply.remark
                stored.append(key)
    except (OSError, EOFError, AerobeeError, TimeoutError):
        return


async def found(peer: RawPeer, key: str) -> list[bytes]:
    """Ask for the messages with a key."""
    header = {"topic": "T", "key": key, "maxNum": "32", "beginTimestamp": "0",
              "endTimestamp": str((1 << 63) - 1)}  # fmt: skip
    reply = await peer.request(Command(code=RequestCode.QUERY_MESSAGE, ext=header))
    return [bytes(record.body) for record in iter_records(bytes(reply.body))]


async def check(port: int, keys: list[str]) -> None:
    """See each of the keys found with its one message, by both of its names."""
    async with await RawPeer.connect(port) as peer:
        for key in keys:
            assert await found(peer, key) == await found(peer, f"U{key}") == [key.encode()]


@pytest.mark.timeout(60 + 20 * ROUNDS)
async def test_every_key_outlives_kills(tmp_path: Path) -> None:
    """Entries, slots, notes and the making of files are cut short wherever they are."""
    dice = drawn()
    broker = KilledBroker(tmp_path, "ASYNC_FLUSH", **SMALL)
    stored: list[str] = []
    broker.start()
    for round_number in range(ROUNDS):
        running = asyncio.create_task(load(broker.port, f"r{round_number}", stored))
        await a_while(dice, 0.7, 2.0, stored, FILLED // ROUNDS)
        broker.kill()
        await running
        await asyncio.to_thread(broker.start)
        await check(broker.port, [*dice.choices(stored, k=ASKED), *stored[-ASKED:]])
    assert await asyncio.to_thread(broker.stop) == 0
    files = Files()
    assert len(index_names(files, broker.store)) > 1, "files were filled, and others begun"
    shape = shape_of(files, broker.store)
    assert shape is not None
    assert (shape.slots, shape.entries) == (500, 1500)
    assert not verify(store_settings(broker.store)).problems
