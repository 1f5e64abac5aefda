"""Queue files that power loss has left with holes: a file in the middle never reached the disk."""

from pathlib import Path

import pytest
from support.disks.logs import append, bodies, opened, send, settle, small

from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    BLANK_SIZE,
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
)
from aerobee.remoting.message.record import BLANK
from aerobee.storage.layout import BOOT_NOTE, DELETED, ENTRY_BYTES, PROGRESS, file_name
from aerobee.storage.queues.files import BLANK_ENTRY, ENTRY
from aerobee.storage.verify import verify

FILE_ENTRIES = 10
BODY_AT = BODY_BYTES_AT[0] + BODY_LENGTH_BYTES


def with_a_hole(root: Path, *, entries: int = FILE_ENTRIES) -> list[bytes]:
    """Leave a store of 80 messages whose second queue file begins with zeros; return the bodies."""
    store = opened(small(root, queue_file_entries=FILE_ENTRIES))
    sent = [b"message %d" % number for number in range(80)]
    for body in sent:
        send(store, body=body)
    store.abandon()
    (root / BOOT_NOTE).unlink()
    (root / PROGRESS).unlink()
    path = root / "consumequeue" / "orders" / "0" / file_name(FILE_ENTRIES * ENTRY_BYTES)
    with path.open("r+b") as file:
        file.write(bytes(entries * ENTRY_BYTES))
    return sent


def test_entries_that_never_reached_the_disk_are_written_again(tmp_path: Path) -> None:
    """Zeros do not lead to the record that the log begins with: the queue gets what it lacks."""
    sent = with_a_hole(tmp_path)
    store = opened(small(tmp_path, queue_file_entries=FILE_ENTRIES))
    assert bodies(store) == sent
    store.close()
    assert not verify(small(tmp_path, queue_file_entries=FILE_ENTRIES)).problems


def test_zeros_of_messages_that_are_lost_do_not_end_the_queue(tmp_path: Path) -> None:
    """Where the log has lost the message, too, the entry becomes a blank that readers step over."""
    sent = with_a_hole(tmp_path, entries=3)
    store = opened(small(tmp_path, queue_file_entries=FILE_ENTRIES))
    place, size, _ = store.queue("orders", 0).entry(11)
    store.abandon()
    (tmp_path / BOOT_NOTE).unlink()
    with (tmp_path / "commitlog" / file_name(0)).open("r+b") as file:
        file.seek(place + size - 5)
        file.write(b"\xff" * 3)
    path = tmp_path / "consumequeue" / "orders" / "0" / file_name(FILE_ENTRIES * ENTRY_BYTES)
    with path.open("r+b") as file:
        file.write(bytes(3 * ENTRY_BYTES))
    for _ in range(2):  # the second start finds what the first has written
        (tmp_path / PROGRESS).unlink(missing_ok=True)
        store = opened(small(tmp_path, queue_file_entries=FILE_ENTRIES))
        queue = store.queue("orders", 0)
        assert queue.max_offset == len(sent)
        assert queue.entry(11)[1] == BLANK_SIZE
        assert [queue.entry(offset)[1] for offset in (10, 12)] == [size, size]
        append(store, "other")
        store.commit_log.commit()
        settle(store)
        store.abandon()
        (tmp_path / BOOT_NOTE).unlink()


def leftover(root: Path, offsets: dict[int, int]) -> list[bytes]:
    """Leave a store of 5 messages, with entries of "orders" behind them; return the bodies.

    `offsets` says by offset the number of the message of "others" that the entry leads to.
    """
    store = opened(small(root))
    sent = [b"message %d" % number for number in range(5)]
    for body in sent[:4]:
        send(store, body=body)
    settle(store)
    progress = (root / PROGRESS).read_bytes()
    for number in range(3):
        send(store, "others", body=b"%d" % number)
    send(store, body=sent[4])
    send(store, "others", body=b"3")
    others = [store.queue("others", 0).entry(number) for number in range(4)]
    store.abandon()
    (root / BOOT_NOTE).unlink()
    (root / PROGRESS).write_bytes(progress)
    with (root / "consumequeue" / "orders" / "0" / file_name(0)).open("r+b") as file:
        for offset, number in offsets.items():
            file.seek(offset * ENTRY_BYTES)
            file.write(ENTRY.pack(*others[number]))
    return sent


@pytest.mark.parametrize("offsets", [{5: 3}, {4: 0, 5: 1, 6: 2}])
def test_entries_of_lost_messages_lead_to_no_other_messages(
    tmp_path: Path, offsets: dict[int, int]
) -> None:
    """Sectors that come back with entries of a log's lost end are cut off, though it has grown."""
    sent = leftover(tmp_path, offsets)
    store = opened(small(tmp_path))
    assert bodies(store) == sent
    assert store.queue("orders", 0).max_offset == len(sent)
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_queue_whose_first_files_are_lost_and_others_empty_is_written_again(
    tmp_path: Path,
) -> None:
    """A file that holds nothing is no reason to take earlier messages for too old."""
    settings = small(tmp_path, queue_file_entries=FILE_ENTRIES)
    store = opened(settings)
    sent = [b"message %d" % number for number in range(2 * FILE_ENTRIES)]
    for body in sent:
        send(store, body=body)
    store.abandon()
    (tmp_path / BOOT_NOTE).unlink()
    (tmp_path / PROGRESS).unlink(missing_ok=True)
    folder = tmp_path / "consumequeue" / "orders" / "0"
    (folder / file_name(0)).unlink()
    (folder / file_name(FILE_ENTRIES * ENTRY_BYTES)).write_bytes(bytes(FILE_ENTRIES * ENTRY_BYTES))
    store = opened(settings)
    assert bodies(store) == sent
    store.close()


@pytest.mark.parametrize("end", ["empty files", "blanks", "a stale one"])
def test_a_queue_with_a_hole_that_ends_with_nothing_keeps_what_is_there(
    tmp_path: Path, end: str
) -> None:
    """A record in the hole is of this life of the topic: what stands behind it does not go."""
    sent = with_a_hole(tmp_path, entries=1)
    folder = tmp_path / "consumequeue" / "orders" / "0"
    path = folder / file_name(40 * ENTRY_BYTES)
    kept = path.read_bytes()
    if end == "empty files":
        path.write_bytes(kept[: 5 * ENTRY_BYTES].ljust(FILE_ENTRIES * ENTRY_BYTES, b"\0"))
    elif end == "a stale one":
        path.write_bytes(kept[:-ENTRY_BYTES] + ENTRY.pack(1, 100, 0))
    filling = bytes(ENTRY_BYTES) if end == "empty files" else BLANK_ENTRY
    for base in (50, 60, 70):
        (folder / file_name(base * ENTRY_BYTES)).write_bytes(filling * FILE_ENTRIES)
    store = opened(small(tmp_path, queue_file_entries=FILE_ENTRIES))
    assert bodies(store) == sent
    assert store.damage == ()
    store.close()


def test_blanks_before_an_end_that_led_nowhere_count_for_no_messages(tmp_path: Path) -> None:
    """The next message would have an offset that nothing explains, were its queue lost again."""
    settings = small(tmp_path)
    store = opened(settings)
    sent = [b"message %d" % number for number in range(55)]
    for body in sent:
        send(store, body=body)
    places = [store.queue("orders", 0).place_of(offset) for offset in range(5, len(sent))]
    store.close()
    (tmp_path / "abort").touch()
    (tmp_path / PROGRESS).unlink()
    folder = tmp_path / "consumequeue" / "orders" / "0"
    (folder / file_name(0)).unlink()
    with (tmp_path / "commitlog" / file_name(0)).open("r+b") as file:
        for position, _ in places:  # the bodies never reached the disk
            file.seek(position + BODY_AT)
            file.write(bytes(3))
    (tmp_path / BOOT_NOTE).unlink(missing_ok=True)
    store = opened(settings)
    sent = [*sent[:5], b"the next one"]
    send(store, body=sent[-1])
    assert bodies(store) == sent
    store.close()
    (tmp_path / "abort").touch()
    for path in (tmp_path / PROGRESS, tmp_path / BOOT_NOTE, *folder.iterdir()):
        path.unlink(missing_ok=True)
    store = opened(settings)
    assert bodies(store) == sent
    assert store.damage == ()
    store.close()


def test_zeros_do_not_lead_to_an_earlier_life_at_the_logs_begin(tmp_path: Path) -> None:
    """The log begins with the same queue's offset 0 of a topic that was deleted."""
    settings = small(tmp_path, queue_file_entries=FILE_ENTRIES)
    store = opened(settings)
    send(store, body=b"old")
    assert store.delete_topic("orders")
    sent = [b"message %d" % number for number in range(4 * FILE_ENTRIES)]
    for body in sent:
        send(store, body=body)
    store.abandon()
    for name in (BOOT_NOTE, PROGRESS, DELETED):  # as a store that RocketMQ has had meanwhile
        (tmp_path / name).unlink(missing_ok=True)
    with (tmp_path / "consumequeue" / "orders" / "0" / file_name(0)).open("r+b") as file:
        file.write(bytes(ENTRY_BYTES))
    store = opened(settings)
    assert bodies(store) == sent
    store.close()


def test_a_kill_behind_a_blank_costs_no_walk_through_the_log(tmp_path: Path) -> None:
    """A file was closed, nothing stands in the next one yet: what the disk has is believed."""
    settings = small(tmp_path)
    store = opened(settings)
    while store.commit_log.position < settings.segment_bytes - 1000:
        send(store)
    settle(store)
    position = store.commit_log.position
    store.abandon()
    with (tmp_path / "commitlog" / file_name(0)).open("r+b") as file:
        file.seek(position)
        file.write(BLANK.pack(settings.segment_bytes - position, BLANK_MAGIC))
    (tmp_path / PROGRESS).unlink(missing_ok=True)
    store = opened(settings)
    assert (store.recovered.proof, store.recovered.begun_at) == ("synced", position)
    store.close()
