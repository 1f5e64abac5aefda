"""What groups that read want to stay in memory: from the slowest on who is not far behind."""

import os
import time
from pathlib import Path

import pytest
from support.disks.logs import append, opened, small
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.members.group import Client
from aerobee.broker.members.registry import Members
from aerobee.broker.pulls import read_positions
from aerobee.broker.pulls.read_positions import ReadPositions
from aerobee.broker.tables.committed import OffsetTable
from aerobee.remoting.bodies import ConsumerData
from aerobee.storage.queues.consume_queue import ConsumeQueue


class World:
    """A store with two queues of fifty messages, and groups that a test lets join and pull."""

    def __init__(self, root: Path) -> None:
        self.store = opened(small(root / "store", segment_bytes=1 << 20))
        for number in range(100):
            append(self.store, queue_id=number % 2, body=bytes(1000))
        self.store.commit_log.commit()
        self.end = self.store.commit_log.committed
        self.members = Members(lambda group, connections: None, lambda: 0)
        self.offsets = OffsetTable(lambda: 0, root)
        self.positions = ReadPositions(self.offsets, self.members, self.store)

    def join(self, group: str) -> None:
        """Add a member to a group."""
        client = Client(FakeConnection(), group, 0, 513)
        self.members.register_consumer(client, ConsumerData(group_name=group), notified=True)

    def position(self, queue_id: int, offset: int) -> int:
        """Return where a message is."""
        queue = self.store.find_queue("orders", queue_id)
        assert queue is not None
        return queue.entry(offset)[0]

    def lowest(self) -> int:
        """Look often enough to have seen everybody."""
        return [self.positions.lowest() for _ in range(5)][-1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a fresh one."""
    return World(tmp_path)


@pytest.mark.parametrize("look_s", [1.0, 0.0])
def test_the_slowest_member_counts(
    world: World, look_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the table is divided into looks."""
    monkeypatch.setattr(read_positions, "LOOK_S", look_s)
    assert world.positions.lowest() == 0, "nothing is known yet"
    world.join("quick")
    world.join("slow")
    world.offsets.pulled("quick", "orders", 0, 50)
    world.offsets.pulled("quick", "orders", 1, 40)
    world.offsets.pulled("slow", "orders", 0, 20)
    world.offsets.pulled("slow", "gone", 0, 1)
    assert [world.lowest() for _ in range(3)][-1] == world.position(0, 20)
    world.offsets.pulled("slow", "orders", 0, 50)
    assert [world.lowest() for _ in range(3)][-1] == world.position(1, 40)
    world.offsets.pulled("quick", "orders", 1, 50)
    assert [world.lowest() for _ in range(3)][-1] == world.end


def test_who_is_gone_or_far_behind_does_not(world: World) -> None:
    """They read from the disk, when they come back."""
    world.offsets.pulled("gone", "orders", 0, 1)
    assert world.lowest() == world.end
    world.join("far")
    world.offsets.pulled("far", "orders", 0, 3)
    assert world.lowest() == world.position(0, 3)
    near = world.position(0, 11)
    world.store.in_memory = lambda position: position >= near  # type: ignore[method-assign]
    assert world.lowest() == world.end
    world.offsets.pulled("far", "orders", 0, 11)
    assert world.lowest() == world.position(0, 11)


def test_entries_on_the_disk_are_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads there is behind what any memory has."""
    world.join("far")
    world.offsets.pulled("far", "orders", 0, 3)
    assert world.store.flusher.flush_all(10)
    queue = world.store.find_queue("orders", 0)
    assert queue is not None
    queue.drop()  # a busy one has newer entries in memory
    world.store.reader.use(lambda memory, at, count: 0)
    assert world.lowest() == world.end


@pytest.mark.parametrize("bytes_left", [None, 0, 40])
def test_files_that_are_lost_or_cut_stop_nobody_else(world: World, bytes_left: int | None) -> None:
    """The store asks within its tick: all that is due there would wait for ever."""
    for _ in range(50):
        append(world.store, body=bytes(1000))
    world.store.commit_log.commit()
    queue = world.store.find_queue("orders", 0)
    assert queue is not None
    first = queue.spans()[0].path
    queue.let_go()
    if bytes_left is None:
        first.unlink()
    else:
        os.truncate(first, bytes_left)
    world.join("slow")
    world.offsets.pulled("slow", "orders", 0, 20)
    assert world.lowest() == world.store.commit_log.committed
    world.offsets.pulled("slow", "orders", 1, 30)
    assert world.lowest() == world.position(1, 30)


def test_ten_thousand_groups_are_looked_at_little_by_little(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look takes two milliseconds; of a queue only few entries are read in a round."""
    for number in range(10_000):
        world.join(f"group{number}")
        world.offsets.pulled(f"group{number}", "orders", number % 2, 10 + number % 37)
    reads = 0
    read = world.store.reader.position_in_memory

    def counted(queue: ConsumeQueue, offset: int) -> int | None:
        nonlocal reads
        reads += 1
        return read(queue, offset)

    monkeypatch.setattr(world.store.reader, "position_in_memory", counted)
    looks, begun = 0, time.process_time()
    while world.positions.lowest() == 0:
        looks += 1
    assert looks < 200
    assert (time.process_time() - begun) / looks < 0.02
    assert reads < 100
    assert world.lowest() == world.position(0, 10)
