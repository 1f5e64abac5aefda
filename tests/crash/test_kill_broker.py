"""kill -9 of a broker under load, again and again: what was acknowledged is there afterwards.

ASYNC_FLUSH promises this for the death of the process (the pages are the kernel's by then), so
that a broker that dies here loses nothing that a client was told is stored.
"""

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.runs.kill_rounds import ROUNDS, drawn
from support.servers.brokers import pull_command, send_command
from support.servers.killed_broker import KilledBroker
from support.waiting import until

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records

OUTSTANDING = 64
QUEUES = 4

Placed = dict[tuple[int, int], bytes]  # (queue, offset) to body


async def send_until_dead(port: int, round_number: int, acknowledged: Placed) -> None:
    """Keep OUTSTANDING messages in flight; note every acknowledgement until the end."""
    async with await RawPeer.connect(port) as peer:
        sent: dict[int, tuple[int, bytes]] = {}

        async def send_one(number: int) -> None:
            body = b"%d-%d-" % (round_number, number) + bytes(number % 700)
            command = send_command(body, queue_id=number % QUEUES)
            sent[command.opaque] = (number % QUEUES, body)
            await peer.send(encode_frame(command))

        try:
            for number in range(OUTSTANDING):
                await send_one(number)
            number = OUTSTANDING
            while True:
                reply = await peer.read()
                queue_id, body = sent.pop(reply.opaque)
                if reply.code == ResponseCode.SUCCESS:
                    acknowledged[queue_id, int(reply.ext["queueOffset"])] = body
                await send_one(number)
                number += 1
        except (OSError, EOFError, AerobeeError):
            return  # killed


async def read(port: int, begins: list[int]) -> Placed:
    """Pull the messages of every queue from an offset each on; offsets must be dense."""
    found: Placed = {}
    async with await RawPeer.connect(port) as peer:
        for queue_id, offset in enumerate(begins):
            while True:
                reply = await peer.request(pull_command(offset, queue_id=queue_id))
                if reply.code != ResponseCode.SUCCESS:
                    assert reply.code == ResponseCode.PULL_NOT_FOUND, reply.remark
                    break
                for record in iter_records(bytes(reply.body)):
                    assert record.queue_offset == offset, "queue offsets are dense"
                    found[queue_id, offset] = bytes(record.body)
                    offset += 1
    return found


def reached(acknowledged: Placed, wanted: int) -> bool:
    """Whether so many messages are acknowledged."""
    return len(acknowledged) >= wanted


def assert_there(acknowledged: Placed, found: Placed, when: str) -> None:
    """See every acknowledged message where the acknowledgement said."""
    lost = {place: body for place, body in acknowledged.items() if found.get(place) != body}
    assert not lost, f"{when}: {len(lost)} of {len(acknowledged)} lost"


def verify(store: Path) -> None:
    """Run the store's own check over the files as they lie there."""
    done = subprocess.run(
        [sys.executable, "-m", "aerobee.storage.verify", str(store)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_nothing_acknowledged_is_lost(tmp_path: Path, flush: str) -> None:
    """After each kill every acknowledged message lies where the acknowledgement said."""
    dice = drawn()
    process = KilledBroker(tmp_path, flush)
    everything: Placed = {}
    ends = [0] * QUEUES
    for round_number in range(ROUNDS):
        process.start()
        acknowledged: Placed = {}
        load = asyncio.create_task(send_until_dead(process.port, round_number, acknowledged))
        wanted = dice.randrange(1, 800)
        await until(partial(reached, acknowledged, wanted), 20, "the load goes on")
        process.kill()
        await load
        assert acknowledged, "the load reached the broker"
        process.start()
        try:
            found = await read(process.port, ends)  # what came since the round before
        finally:
            process.kill()
        assert_there(acknowledged, found, f"round {round_number}")
        for queue_id, offset in found:
            ends[queue_id] = max(ends[queue_id], offset + 1)
        everything |= acknowledged
        assert process.cpu_seconds_to_serve < 10
    process.start()
    assert_there(everything, await read(process.port, [0] * QUEUES), "in the end")
    assert process.stop() == 0
    assert not (process.store / "abort").exists()
    verify(process.store)
