"""Flipped bits where no checksum looks: in a record's topic, queue and offset, and in entries."""

import random
import shutil
from pathlib import Path

import pytest
from support.disks.logs import (
    bodies,
    lost,
    opened,
    other_problems,
    read_all,
    send,
    settle,
    small,
    write_queues,
)

from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.files import BLANK_ENTRY, ENTRY
from aerobee.storage.repair import repair
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify


def settings_of(root: Path) -> StoreSettings:
    """Files of 16 KiB, 50 entries in each file of a queue."""
    return small(root)


def edit(root: Path, position: int, data: bytes) -> None:
    """Overwrite a few bytes of the log."""
    with (root / "commitlog" / f"{position // 16384 * 16384:020d}").open("r+b") as file:
        file.seek(position % 16384)
        file.write(data)


def forget(root: Path) -> None:
    """Leave a store as after a loss of power, without any note."""
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    (root / "abort").write_text("4711")


def aged(store: MessageStore, files: int) -> int:
    """Let the oldest files of the log go; return where it begins now."""
    for _ in range(files):
        store.segments.drop_first()
    for queue in store.queues:
        queue.trim(store.segments.begin)
    return store.segments.begin


def test_a_queue_that_no_checkpoint_names_is_not_begun_again(tmp_path: Path) -> None:
    """First used after the last checkpoint, its folder lost, and other queues go on behind it.

    The note of this boot covers it, and no entry leads to its messages: they are found.
    """
    store = opened(settings_of(tmp_path))
    send(store, "old", body=b"0")
    settle(store)
    for number in range(5):
        send(store, "new", body=b"%d" % number)
    send(store, "old", body=b"1")
    write_queues(store)
    store.abandon()
    shutil.rmtree(tmp_path / "consumequeue" / "new")
    store = opened(settings_of(tmp_path))
    assert store.recovered.proof == "flushed"
    assert bodies(store, "new") == [b"%d" % number for number in range(5)]
    send(store, "new", body=b"5")
    assert store.queue("new", 0).max_offset == 6
    store.close()
    assert not other_problems(settings_of(tmp_path))


@pytest.mark.parametrize("notes", [True, False])
def test_a_lost_queue_of_an_aged_log_keeps_its_offsets(tmp_path: Path, notes: bool) -> None:
    """The first message that the log still has says which offset comes first."""
    store = opened(settings_of(tmp_path))
    for number in range(40):
        send(store, "t", body=b"%04d" % number + bytes(800))
        store.poll()
    aged(store, 1)
    whole = [record.queue_offset for record in read_all(store, "t")]
    store.abandon()
    shutil.rmtree(tmp_path / "consumequeue")
    if not notes:
        forget(tmp_path)
    store = opened(settings_of(tmp_path))
    records = read_all(store, "t")
    assert [record.queue_offset for record in records] == whole
    assert [int(record.body[:4]) for record in records] == whole
    assert store.queue("t", 0).max_offset == 40
    store.close()


def test_the_first_file_of_a_queue_of_an_aged_log(tmp_path: Path) -> None:
    """Lost alone, it is written again with what the log still has of its messages."""
    store = opened(settings_of(tmp_path))
    for number in range(120):
        send(store, "t", body=b"%04d" % number + bytes(500))
        send(store, "u", body=b"beside")
        store.poll()
    aged(store, 1)
    whole = [record.queue_offset for record in read_all(store, "t")]
    store.close()
    assert whole[0] < 50
    (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").unlink()
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t")] == whole
    store.close()


def test_a_lost_first_sector_of_a_queue_of_an_aged_log(tmp_path: Path) -> None:
    """Its zeros hide what comes next, and the log's first message of the queue is one of them."""
    store = opened(settings_of(tmp_path))
    for number in range(60):
        send(store, "t", body=b"%04d" % number + bytes(700))
        store.poll()
    aged(store, 1)
    whole = [record.queue_offset for record in read_all(store, "t")]
    store.abandon()
    with (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as file:
        file.write(bytes(512))
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t")] == whole
    store.close()


@pytest.mark.parametrize("flipped", ["topic", "queue"])
@pytest.mark.parametrize("entries", [True, False])
@pytest.mark.parametrize("hit", [3, 9])
def test_a_flipped_topic_or_queue_makes_no_queue(
    tmp_path: Path, hit: int, entries: bool, flipped: str
) -> None:
    """The message is lost and said so: its entry tells, or that no queue begins at offset 3."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "t", body=b"%d" % number) for number in range(10)]
    store.close()
    forget(tmp_path)
    if flipped == "topic":
        edit(tmp_path, places[hit] + 88 + 1 + 1, b"u")
    else:
        edit(tmp_path, places[hit] + 15, b"\x04")
    if not entries:
        shutil.rmtree(tmp_path / "consumequeue")
    for _ in range(2):
        store = opened(settings_of(tmp_path))
        assert store.topics() == {"t": [0]} or not any(
            queue.max_offset for queue in store.queues if (queue.topic, queue.queue_id) != ("t", 0)
        )
        (span,) = store.damage
        assert span.begin == places[hit] and span.reason.startswith("queue offset")
        others = [number for number in range(10) if number != hit]
        assert [record.queue_offset for record in read_all(store, "t")] == others
        if entries:
            assert lost(store, "t") == {hit} and store.queue("t", 0).max_offset == 10
        store.close()


@pytest.mark.parametrize("hit", [0, 1, 20, 21, 38, 39])
@pytest.mark.parametrize("mended_by", ["a start", "the tool"])
def test_a_flipped_queue_that_has_such_a_message_itself(
    tmp_path: Path, hit: int, mended_by: str
) -> None:
    """Queues of one topic have the same offsets: whose the message was its queue's entry says."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "t", queue_id=at % 2, body=b"%04d" % at + bytes(500)) for at in range(40)]
    store.close()
    edit(tmp_path, places[hit] + 12, (1 - hit % 2).to_bytes(4, "big"))
    if mended_by == "the tool":
        assert verify(settings_of(tmp_path)).problem_count
        repair(settings_of(tmp_path))
        assert not verify(settings_of(tmp_path)).problems
    else:
        forget(tmp_path)
    store = opened(settings_of(tmp_path))
    if mended_by == "a start":
        (span,) = store.damage
        assert (span.begin, span.queues) == (places[hit], (("t", hit % 2, hit // 2, hit // 2),))
    for queue_id in (0, 1):
        assert store.queue("t", queue_id).max_offset == 20
        found = {
            record.queue_offset: int(record.body[:4])
            for record in read_all(store, "t", queue_id)
            if record.position != places[hit]
        }
        assert found == {at // 2: at for at in range(queue_id, 40, 2) if at != hit}
    store.close()


@pytest.mark.parametrize("flipped", ["topic", "queue"])
def test_a_flipped_name_costs_the_last_message_of_its_queue_nothing(
    tmp_path: Path, flipped: str
) -> None:
    """The queue's last one leaves out an offset: that is what the flipped record has lost."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "t", body=b"%d" % number) for number in range(6)]
    write_queues(store)
    store.abandon()
    forget(tmp_path)
    edit(tmp_path, *((places[4] + 90, b"u") if flipped == "topic" else (places[4] + 15, b"\x04")))
    with (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(4 * ENTRY_BYTES)
        file.write(bytes(2 * ENTRY_BYTES))
    store = opened(settings_of(tmp_path))
    assert [span.begin for span in store.damage] == [places[4]]
    assert [record.queue_offset for record in read_all(store, "t")] == [0, 1, 2, 3, 5]
    store.close()


@pytest.mark.parametrize("entry", [True, False])
@pytest.mark.parametrize(
    ("at", "data"), [(12, b"\x01"), (15, b"\x05"), (15, b"\x01"), (90, b"u"), (25, b"\x01")]
)
def test_a_first_message_with_a_flipped_name_is_mended(
    tmp_path: Path, at: int, data: bytes, entry: bool
) -> None:
    """It is of no topic that was deleted: its entry, or the hole that it left, says so."""
    store = opened(settings_of(tmp_path))
    for number in range(20):
        send(store, "t", number % 2, body=b"%d" % number)
    store.close()
    edit(tmp_path, at, data)
    if not entry:
        with (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as file:
            file.write(bytes(ENTRY_BYTES))
    repair(settings_of(tmp_path))
    report = verify(settings_of(tmp_path))
    assert not report.problems and not report.deleted_records
    assert len(list((tmp_path / "damaged" / "commitlog").iterdir())) == 1
    store = opened(settings_of(tmp_path))
    assert [int(body) for body in bodies(store, "t")] == list(range(2, 20, 2))
    assert [int(body) for body in bodies(store, "t", 1)] == list(range(1, 20, 2))
    store.close()


def test_a_flipped_offset_that_lost_its_entry_is_mended(tmp_path: Path) -> None:
    """It names an offset behind all others, in a place before them: no earlier life had it."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "t", body=b"%d" % number) for number in range(20)]
    store.close()
    edit(tmp_path, places[7] + 24, b"\x05")
    with (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(7 * ENTRY_BYTES)
        file.write(BLANK_ENTRY)
    assert verify(settings_of(tmp_path)).problems
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t")] == [*range(7), *range(8, 20)]
    store.close()


def test_a_flipped_offset_in_a_queue_that_lost_its_first_file_is_mended(tmp_path: Path) -> None:
    """What is left of the queue begins behind it, and yet it is of no topic that was deleted."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "t", body=b"%d" % number) for number in range(80)]
    store.close()
    edit(tmp_path, places[38] + 27, bytes([104]))
    path = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:261])
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t")] == [*range(38), *range(39, 80)]
    store.close()


def test_a_queue_that_begins_late_is_believed_when_it_goes_on(tmp_path: Path) -> None:
    """Two messages in order outweigh that none came before them: a log that was put together."""
    store = opened(settings_of(tmp_path))
    for _ in range(7):
        send(store, "other")
    store.queue("late", 0).start_at(7)
    for number in range(7, 10):
        send(store, "late", body=b"%d" % number)
    store.close()
    forget(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "late")] == [7, 8, 9]
    assert store.damage == ()
    store.close()


def test_a_last_offset_that_becomes_zero_cuts_no_queue(tmp_path: Path) -> None:
    """A flipped bit, not a topic that was made again: the queue has its sound messages."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "t", body=b"%d" % number) for number in range(9)]
    write_queues(store)
    store.abandon()
    forget(tmp_path)
    edit(tmp_path, places[8] + 20, bytes(8))
    with (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(8 * ENTRY_BYTES)
        file.write(bytes(ENTRY_BYTES))
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t")] == list(range(8))
    assert [span.begin for span in store.damage] == [places[8]]
    store.close()


def test_a_flipped_entry_older_than_the_log_condemns_no_message(tmp_path: Path) -> None:
    """A repair finds the queue to end there: what the log begins with goes on behind it."""
    store = opened(settings_of(tmp_path))
    for number in range(40):
        send(store, "t", body=b"%04d" % number + bytes(800))
        store.poll()
    aged(store, 1)
    whole = [record.queue_offset for record in read_all(store, "t")]
    store.close()
    with (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(2 * ENTRY_BYTES)
        file.write(ENTRY.pack(1 << 40, 894, 0))
    repair(settings_of(tmp_path))
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t")] == whole
    assert store.damage == ()
    store.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_entry_cuts_off_no_others(tmp_path: Path, seed: int) -> None:
    """Wherever a search by halves looks: it takes neither the end nor the begin for elsewhere."""
    chance = random.Random(seed)
    store = opened(settings_of(tmp_path))
    for number in range(100):
        send(store, "t", body=b"%04d" % number + bytes(400))
        store.poll()
    settle(store)
    if seed % 2:
        aged(store, 1)
        settle(store)
    low = store.queue("t", 0).min_offset
    store.close()
    hit = 98 if seed < 4 else chance.choice([49, 74, 62, 24, chance.randrange(low, 99)])
    hit = max(hit, low + 1)
    place = chance.choice([1 << 40, -(1 << 40), 91]) if seed > 1 else 1 << 40
    path = tmp_path / "consumequeue" / "t" / "0" / f"{hit // 50 * 50 * ENTRY_BYTES:020d}"
    with path.open("r+b") as file:
        file.seek(hit % 50 * ENTRY_BYTES)
        file.write(ENTRY.pack(place, 493, 0))
    store = opened(settings_of(tmp_path))
    queue = store.queue("t", 0)
    assert (queue.min_offset, queue.max_offset) == (low, 100), hit
    send(store, "t", body=b"next")
    assert queue.max_offset == 101
    store.close()
