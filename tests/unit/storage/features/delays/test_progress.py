"""What was delivered is known after any kind of stop: nothing is lost, nothing comes twice."""

import errno
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles, bodies, send, settle
from support.features.delays import LEVELS_MS, Delays

from aerobee.remoting.errors import CorruptRecord
from aerobee.storage.disk.files import Files
from aerobee.storage.dump import dump
from aerobee.storage.features.delays.notes import (
    DURABLE_AT,
    LATEST_AT,
    Note,
    decode_note,
    encode_note,
)
from aerobee.storage.settings import SYNC_FLUSH

COUNT = 20


def test_a_note_is_believed_whole_or_not_at_all() -> None:
    """Any flipped bit makes it no note."""
    note = Note(1 << 40, {1: 5, 18: 1 << 50})
    data = encode_note(note)
    assert decode_note(data, 0) == note
    assert decode_note(bytes(len(data)), 0) is None
    for at in range(len(data) * 8):
        torn = bytearray(data)
        torn[at // 8] ^= 1 << at % 8
        assert decode_note(bytes(torn), 0) is None


async def half_delivered(root: Path) -> Delays:
    """A store in which half of the messages were delivered when the process died."""
    delays = Delays(root)
    for number in range(COUNT):
        delays.delay(b"%d" % number)
        delays.clock.advance(50)
    delays.clock.advance(LEVELS_MS[0] - COUNT * 25)
    assert len(bodies(delays.store, "T")) == COUNT // 2 + 1
    delays.die()
    return delays


def all_once(delays: Delays) -> None:
    """Every message was delivered once, in order."""
    assert bodies(delays.store, "T") == [b"%d" % number for number in range(COUNT)]


async def test_the_notes_can_be_printed(tmp_path: Path) -> None:
    """By the tool that prints every file of a store; one without a sound note is damaged."""
    await half_delivered(tmp_path)
    path = tmp_path / "aerobee.delayed"
    lines = list(dump(path))
    assert f"    level 1 next offset {COUNT // 2 + 1}" in lines
    spoil(path, LATEST_AT, DURABLE_AT)
    with pytest.raises(CorruptRecord, match="right checksum"):
        list(dump(path))


async def test_a_killed_process_goes_on_where_it_was(tmp_path: Path) -> None:
    """By the note alone."""
    delays = await half_delivered(tmp_path)
    delays.begin()
    delays.clock.advance(LEVELS_MS[0])
    all_once(delays)
    delays.store.close()


def spoil(path: Path, *places: int) -> None:
    """Flip a byte of the notes at these places."""
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("places", [(LATEST_AT,), (LATEST_AT, DURABLE_AT), (0,)])
async def test_torn_notes_are_made_up_for_by_the_log(
    tmp_path: Path, places: tuple[int, ...]
) -> None:
    """The delivered records say what was delivered, however old the note is."""
    delays = await half_delivered(tmp_path)
    spoil(tmp_path / "aerobee.delayed", *places)
    delays.begin()
    assert delays.service.progress.next_offset(1) == COUNT // 2 + 1
    delays.clock.advance(LEVELS_MS[0])
    all_once(delays)
    delays.store.close()


async def test_a_note_ahead_of_the_log_is_not_believed(tmp_path: Path) -> None:
    """A note that the disk kept while it lost the messages would lose them for good."""
    delays = await half_delivered(tmp_path)
    page = bytearray((tmp_path / "aerobee.delayed").read_bytes())
    ahead = encode_note(Note(1 << 30, {1: COUNT}))
    for place in (LATEST_AT, DURABLE_AT):
        page[place : place + len(ahead)] = ahead
    (tmp_path / "aerobee.delayed").write_bytes(bytes(page))
    delays.begin()
    delays.clock.advance(LEVELS_MS[0])
    all_once(delays)
    delays.store.close()


async def test_a_note_ahead_of_the_log_is_gone_when_the_log_has_grown(tmp_path: Path) -> None:
    """Or it would be believed one day: the log it spoke of is another."""
    delays = await half_delivered(tmp_path)
    page = bytearray((tmp_path / "aerobee.delayed").read_bytes())
    ahead = encode_note(Note(delays.store.commit_log.committed + 5000, {1: COUNT}))
    for place in (LATEST_AT, DURABLE_AT):
        page[place : place + len(ahead)] = ahead
    (tmp_path / "aerobee.delayed").write_bytes(bytes(page))
    delays.begin()
    for _ in range(100):
        send(delays.store, "plain", body=bytes(100))
    delays.die()
    delays.begin()
    delays.clock.advance(LEVELS_MS[0])
    all_once(delays)
    delays.store.close()


async def test_a_full_disk_at_the_start_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """The old note stays, and the first one after that takes its place."""
    delays = await half_delivered(tmp_path)
    files = Files()
    full = True

    def write(fd: int, data: bytes | memoryview, at: int) -> None:
        if full and Path(f"/proc/self/fd/{fd}").readlink().name == "aerobee.tmp":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Files.write(files, fd, data, at)

    files.write = write  # type: ignore[method-assign]
    delays.begin(files)
    delays.die()
    delays.begin(files)
    full = False
    delays.clock.advance(LEVELS_MS[0])
    all_once(delays)
    delays.die()
    delays.begin()
    delays.clock.advance(LEVELS_MS[0])
    all_once(delays)
    delays.store.close()


async def test_times_are_worked_out_again_from_the_log(tmp_path: Path) -> None:
    """Queues that are lost come back with the times at which their messages are due."""
    delays = Delays(tmp_path)
    delays.delay(b"a", level=2)
    delays.die()
    for name in ("consumequeue", "aerobee.progress", "aerobee.written"):
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    delays.begin()
    delays.clock.advance(LEVELS_MS[1] - 1)
    assert bodies(delays.store, "T") == []
    delays.clock.advance(1)
    assert bodies(delays.store, "T") == [b"a"]
    delays.store.close()


async def test_rocketmqs_table_counts_where_there_is_no_note(tmp_path: Path) -> None:
    """In a store of RocketMQ's nothing carries our property; delayOffset.json says it all."""
    delays = Delays(tmp_path)
    for number in range(3):
        delays.delay(b"%d" % number)
    delays.die()
    (tmp_path / "aerobee.delayed").unlink()
    delays.begin(hint={1: 2, -5: 3, 1 << 31: 9})
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"2"]
    delays.store.close()


async def test_a_table_of_another_store_is_corrected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An offset beyond the queue becomes its end, or later messages would never be delivered."""
    delays = Delays(tmp_path)
    delays.delay(b"early")
    delays.die()
    delays.begin(hint={1: 1000})
    assert any("delay_offset_corrected" in line for line in caplog.messages)
    delays.delay(b"a")
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"a"]
    delays.store.close()


def forge(delays: Delays, mark: str, real_topic: str) -> None:
    """Store a message in topic T that claims to be a delayed one."""
    properties = f"AEROBEE_DELAYED\x01{mark}\x02REAL_TOPIC\x01{real_topic}\x02REAL_QID\x010\x02"
    send(delays.store, "T", properties=properties.encode())


async def test_a_message_that_only_looks_delivered_moves_nothing(tmp_path: Path) -> None:
    """Marks that do not count: older than the message, of another topic, or without sense."""
    delays = Delays(tmp_path)
    forge(delays, "2-0", "T")
    delays.delay(b"a", level=2)
    forge(delays, "2-0", "Else")
    for mark in ("2-7", "x-0", "999999999-1"):
        forge(delays, mark, "T")
    delays.die()
    spoil(tmp_path / "aerobee.delayed", LATEST_AT, DURABLE_AT)
    delays.begin()
    assert delays.service.progress.next_offset(2) == 0
    delays.store.close()


async def test_the_table_never_says_more_than_the_disk_has(tmp_path: Path) -> None:
    """`durable` follows only when the delivered records are flushed."""
    delays = Delays(tmp_path, flush_interval_ms=3_600_000)
    delays.delay(b"a")
    delays.clock.advance(LEVELS_MS[0])
    delays.service.settled()
    assert delays.service.progress.offsets == {1: 1}
    assert delays.service.settled() == {}
    settle(delays.store)
    delays.service.settled()
    assert delays.service.settled() == {1: 1}
    delays.store.close()
    assert delays.service.close() == {1: 1}


@pytest.mark.parametrize("seed", range(12))
async def test_power_cuts_lose_nothing_that_was_synced(tmp_path: Path, seed: int) -> None:
    """Three lives on a disk that forgets and tears: what was synced is delivered in the end.

    A delivery that the disk forgot happens again; one that it kept does not.
    """
    print(f"seed {seed}")
    chance = random.Random(seed)
    files = ForgetfulFiles()
    delays = Delays(tmp_path, files, flush_mode=SYNC_FLUSH)
    synced: set[bytes] = set()
    number = 0
    for _ in range(3):
        fresh: set[bytes] = set()
        for _ in range(chance.randint(1, 40)):
            delays.delay(b"%d" % number, level=chance.choice((1, 1, 2)))
            fresh.add(b"%d" % number)
            number += 1
            delays.clock.advance(chance.choice((1, 100, 400)))
            if chance.random() < 0.2:
                settle(delays.store)
                synced |= fresh
                delays.service.settled()
        delays.die()
        files = files.crash(tmp_path, chance)
        delays.begin(files)
    delays.clock.advance(LEVELS_MS[1])
    delivered = Counter(bodies(delays.store, "T"))
    assert synced <= delivered.keys()
    assert set(delivered.values()) <= {1}
    delays.store.close()
