"""Copies are killed, lose power, meet full disks at any step: no key loses its latest value."""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from simulation.disk.clock import Clock
from simulation.disk.door import Door
from simulation.disk.folders import scratch
from simulation.disk.machine import Died, Machine

from aerobee.remoting.message.record import Record, decode_record, encode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Gone
from aerobee.storage.features.compaction.copies import Copies
from aerobee.storage.features.compaction.notes import read_compacted
from aerobee.storage.features.compaction.pairs import Folders
from aerobee.storage.features.compaction.rounds import compact
from aerobee.storage.features.compaction.units import CompactionSettings
from aerobee.storage.features.compaction.writing import Copy

SETTINGS = CompactionSettings(file_bytes_wanted=2300, unit_file_bytes_wanted=460)
COUNT = 70
KEYS = 6
ONCE = 7  # one message in so many has a key of its own


def record(offset: int, key: str | None = None, body: bytes | None = None) -> Copy:
    """A message of one of some keys, as the log has it."""
    usual = f"only {offset}" if offset % ONCE == 5 else f"k{offset % KEYS}"
    named = usual if key is None else key
    data = encode_record(
        Record(
            topic="T", queue_offset=offset, position=offset * 1000,
            store_timestamp=1_700_000_000_000 + offset,
            body=b"v%d" % offset if body is None else body,
            properties=f"KEYS\x01{named}\x02".encode(),
        )
    )  # fmt: skip
    return Copy(offset, 0, 1_700_000_000_000 + offset, data)


LOG = [record(offset) for offset in range(COUNT)]


def queue_of(root: Path, files: Files, noted: int = 0) -> CopiedQueue:
    """The copy of queue 0."""
    folders = Folders(root / "compaction/compactionLog/T/0", root / "compaction/compactionCq/T/0")
    return CopiedQueue(files, folders, SETTINGS, root / "aside", noted)


def read(queue: CopiedQueue, offset: int = 0) -> list[Record]:
    """Read all of it, some at a time."""
    found: list[Record] = []
    while offset < queue.end:
        taken = queue.read(offset, 3, 1000)
        assert not taken.passed_over
        found += [decode_record(data) for _, data in taken.records]
        assert taken.next_offset > offset
        offset = taken.next_offset
    return found


def check(queue: CopiedQueue) -> None:
    """See the latest of each key, nothing twice, and nothing that was never sent."""
    found = read(queue)
    offsets = [each.queue_offset for each in found]
    assert offsets == sorted(set(offsets))
    assert all(each.body == b"v%d" % each.queue_offset for each in found)
    latest = {decode_record(each.record).properties: each.offset for each in LOG}
    assert set(latest.values()) <= set(offsets)


class Life:
    """What a broker does with a copy; `noted` is what it may believe after its end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.noted = 0
        self.compacted = -1

    def run(self, files: Files) -> None:
        """Go on copying and compacting until all is done."""
        queue = queue_of(self.root, files, self.noted)
        queue.load(self.noted, COUNT)  # the log has nothing older
        assert queue.end >= self.noted, "what was noted as synced is lost"
        for begin in range(queue.end, COUNT, 8):
            end = min(begin + 8, COUNT)
            queue.append(LOG[begin:end], end)
            if begin % 3 == 0:
                self.noted = queue.sync()
            if begin % 2 == 0:
                self.compacted = compact(queue, self.compacted, 1000, lambda: None).compacted_to
        self.noted = queue.sync()
        self.compacted = compact(queue, self.compacted, 1000, lambda: None).compacted_to
        check(queue)


@pytest.fixture
def machines() -> Iterator[Callable[[int], Machine]]:
    """Machines with empty disks that keep no name by themselves."""
    made: list[Machine] = []
    with scratch() as folder:

        def machine(seed: int) -> Machine:
            made.append(Machine(folder / f"root-{seed}", seed, Clock()))
            made[-1].journaled = False
            return made[-1]

        yield machine
        for each in made:
            each.close()


def steps_of_a_life(machine: Machine) -> int:
    """Count the operations of a life in which nothing happens."""
    Life(machine.root).run(Door(machine))
    return machine.operations


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
def test_any_step_may_be_the_last(machines: Callable[[int], Machine], power: bool) -> None:
    """Each next life finds what was noted, and goes on; twice cut short at that."""
    steps = steps_of_a_life(machines(0))
    assert steps > 300
    stride = 7 if power else 5
    for number in range(1, steps, stride):
        machine = machines(number)
        life = Life(machine.root)
        for fuse in (number, number // 2 + 3, -1):
            door = Door(machine)
            machine.fuse = fuse
            try:
                life.run(door)
            except Died:
                door.bury()
                machine.fuse = -1
                if power:
                    machine.lose_power()
                    life.compacted = min(life.compacted, life.noted - 1)
        machine.close()


def test_a_full_disk_fails_a_round_and_leaves_the_copy(machines: Callable[[int], Machine]) -> None:
    """What was there is read as before; once there is room the next round does it."""
    machine = machines(1)
    door = Door(machine)
    queue = queue_of(machine.root, door)
    queue.load(0, COUNT)
    queue.append(LOG, COUNT)
    before = [each.queue_offset for each in read(queue)]
    machine.weather.no_space_until_s = 1e9
    with pytest.raises(OSError, match="space") as failed:
        compact(queue, -1, 1000, lambda: None)
    assert failed.value.errno == errno.ENOSPC
    assert [each.queue_offset for each in read(queue)] == before == list(range(COUNT))
    machine.weather.clear_up()
    compact(queue, -1, 1000, lambda: None)
    check(queue)
    assert len(read(queue)) < COUNT // 2


def filled(root: Path, copies: list[Copy]) -> CopiedQueue:
    """A copy with some records."""
    queue = queue_of(root, Files())
    queue.load(0, len(copies))
    queue.append(copies, len(copies))
    return queue


def test_a_flipped_bit_costs_one_message(tmp_path: Path) -> None:
    """A pull passes over it; a round leaves it out, and keeps its bytes beside the store."""
    queue = filled(tmp_path, LOG)
    path = tmp_path / "compaction/compactionLog/T/0/00000000000000000000"
    data = bytearray(path.read_bytes())
    data[0] ^= 0x80  # the first record's size
    path.write_bytes(data)
    taken = queue.read(0, 100, 1 << 20)
    assert (taken.passed_over, len(taken.records)) == (1, COUNT - 1)
    result = compact(queue, -1, 1000, lambda: None)
    assert result.damaged == 1
    check(queue)
    assert [each.name for each in (tmp_path / "aside").iterdir()] == ["0-0.unreadable"]


def test_more_keys_than_fit_are_compacted_in_turns(tmp_path: Path) -> None:
    """RocketMQ's round fails then, each time; ours goes as far as the keys go."""
    copies = [record(offset, f"key-{offset % 150}") for offset in range(600)]
    queue = filled(tmp_path, copies)
    reached, rounds = -1, 0
    while (after := compact(queue, reached, 100, lambda: None).compacted_to) > reached:
        reached, rounds = after, rounds + 1
    assert rounds > 3
    last = queue.closed_pairs[-1].last
    found = [each.queue_offset for each in read(queue)]
    assert set(range(450, 600)) <= set(found)
    assert reached == last
    assert len(found) < 350


def test_an_empty_body_removes_its_key(tmp_path: Path) -> None:
    """The tombstone goes with what it removes."""
    copies = [
        *LOG[:20],
        record(20, "k0", b""),
        *(record(offset, "other") for offset in range(21, 60)),
    ]
    queue = filled(tmp_path, copies)
    compact(queue, -1, 1000, lambda: None)
    keys = [bytes(each.properties) for each in read(queue)]
    assert b"KEYS\x01k0\x02" not in keys
    assert b"KEYS\x01k1\x02" in keys


def test_a_deleted_topic_stops_its_round(tmp_path: Path) -> None:
    """Nothing of it is written under the name any more."""
    queue = filled(tmp_path, LOG)
    calls: list[threading.Thread] = []

    def pause() -> None:
        calls.append(threading.Thread(target=queue.give_up))
        calls[-1].start()
        while not queue.gone:
            time.sleep(0.001)

    with pytest.raises(Gone):
        compact(queue, -1, 1000, pause)
    assert len(calls) == 1
    calls[0].join(5)
    assert not (tmp_path / "compaction/compactionLog/T/0/compacting/aerobee.swap").exists()


def test_a_round_that_ends_as_its_topic_is_deleted_is_not_noted(tmp_path: Path) -> None:
    """The next topic so called would be taken for compacted up to there."""
    copies = Copies(Files(), tmp_path, SETTINGS)
    queue = copies.queue("T", 0)
    queue.load(0, COUNT)
    queue.append(LOG, COUNT)
    result = compact(queue, -1, 1000, lambda: None)
    copies.remove("T", copies.drop("T"))
    copies.note_compacted(queue, ("T", 0), result.compacted_to)
    assert result.compacted_to > 0
    assert not read_compacted(Files(), tmp_path)
    assert copies.compacted_to("T", 0) == -1


def test_a_copy_has_nothing_that_its_queue_has_not(tmp_path: Path) -> None:
    """Also of what is noted as synced: the log has lost its end, or is another topic's."""
    filled(tmp_path, LOG).sync()
    queue = queue_of(tmp_path, Files(), COUNT)
    queue.load(0, 5)
    assert [each.queue_offset for each in read(queue)] == list(range(5))
    assert (queue.end, queue.synced_end) == (5, 5)


class FailingSync(Files):
    """A disk that once does not take what it is given."""

    fails = False

    def sync(self, fd: int) -> None:
        """Fail, and forget, as a kernel may."""
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, "the disk does not take it")
        super().sync(fd)


def test_what_a_failed_sync_may_have_lost_is_written_again(tmp_path: Path) -> None:
    """The next sync would say that all is well of what the kernel has dropped."""
    files = FailingSync()
    queue = queue_of(tmp_path, files)
    queue.load(0, COUNT)
    queue.append(LOG[:20], 20)
    assert queue.sync() == 20
    queue.append(LOG[20:30], 30)
    files.fails = True
    with pytest.raises(OSError, match="does not take it"):
        queue.sync()
    assert (queue.end, queue.synced_end) == (20, 20)
    queue.load(0, COUNT)
    assert [each.queue_offset for each in read(queue)] == list(range(20))
    queue.append(LOG[20:], COUNT)
    assert queue.sync() == COUNT
    assert [each.queue_offset for each in read(queue)] == list(range(COUNT))
