"""Queue files that power loss has left with holes: a file in the middle never reached the disk."""

from pathlib import Path

from support.logs import append, bodies, opened, send, settle, small

from aerobee.storage.layout import ENTRY_BYTES, PROGRESS, WRITTEN, file_name
from aerobee.storage.queue_files import BLANK_SIZE
from aerobee.storage.verify import verify

FILE_ENTRIES = 10


def with_a_hole(root: Path, *, entries: int = FILE_ENTRIES) -> list[bytes]:
    """Leave a store of 80 messages whose second queue file begins with zeros; return the bodies."""
    store = opened(small(root, queue_file_entries=FILE_ENTRIES))
    sent = [b"message %d" % number for number in range(80)]
    for body in sent:
        send(store, body=body)
    store.abandon()
    (root / WRITTEN).unlink()
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
    (tmp_path / WRITTEN).unlink()
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
        (tmp_path / WRITTEN).unlink()
