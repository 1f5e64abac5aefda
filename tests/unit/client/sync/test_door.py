"""What an adapter does by a waiting producer's connections, in the loop's thread."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from aerobee.client.group.offsets import GroupOffsets
from aerobee.client.sync import InvalidUse, Message, Producer
from aerobee.client.sync.door import LoopDoor


def test_an_adapter_works_by_a_producers_connections(namesrv: str) -> None:
    """It sends, looks topics up and asks for offsets, where nobody else waits."""

    async def work(door: LoopDoor) -> tuple[str, int, int | None, bool]:
        later = datetime.now(UTC) + timedelta(hours=1)
        await door.send(Message("by-the-door", b"later"), deliver_at=later)
        sent = await door.send(Message("by-the-door", b"now"))
        route = await door.routes.get_anew("by-the-door")
        offsets = GroupOffsets(door.as_stranger, "asked", 3_000)
        newest = await offsets.newest(sent.queue)
        committed = await offsets.committed(sent.queue)
        mine = threading.current_thread() is threading.main_thread()
        assert sent.queue in route.read_queues
        return sent.queue.topic, newest, committed, mine

    with Producer(namesrv=namesrv) as producer:
        door = LoopDoor(producer)
        assert door.wait(work(door)) == ("by-the-door", 1, 0, False)


def test_a_door_is_open_while_its_producer_is(namesrv: str) -> None:
    """Before and afterwards it says so, as everything else does."""
    producer = Producer(namesrv=namesrv)
    door = LoopDoor(producer)
    for _ in range(2):
        with pytest.raises(InvalidUse):
            door.wait(asyncio.sleep(0))
        producer.start()
        door.wait(asyncio.sleep(0))
        producer.close()
