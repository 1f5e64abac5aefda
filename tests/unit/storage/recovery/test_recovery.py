"""Recovery: of our stores and of RocketMQ's, clean or killed, whole or with parts missing."""

import os
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import (
    NOW_MS,
    append,
    bodies,
    hosts,
    opened,
    other_problems,
    send,
    settle,
    small,
    write_queues,
)
from support.disks.stores import Stored, StoreWriter, properties

from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.errors import StoreDamaged, WrongFileSize
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

SEGMENT = 1 << 16
JAVA: dict[str, Any] = {"segment_bytes": SEGMENT, "queue_file_entries": 300_000}


def java_store(root: Path, count: int = 300, *, clean: bool, **close: Any) -> StoreWriter:
    """A store as RocketMQ leaves it: no file of ours, a prepared file at the end."""
    writer, dispatched = StoreWriter(root, SEGMENT), 0
    for number in range(count):
        writer.append(
            Stored(
                topic="orders" if number % 3 else "t" * 130,
                queue_id=number % 2,
                body=b"%d" % number + bytes(number % 700),
                properties=properties({"TAGS": f"tag{number % 5}"}, closed=number % 2 == 0),
                store_timestamp=NOW_MS + number * 100,
                born_host=("2001:db8::7", 1) if number % 7 == 0 else ("10.0.0.7", 1),
            ),
        )
        if number < close.get("dispatched", count):
            dispatched = writer.position
    for entries in writer.entries.values():
        entries[:] = [entry for entry in entries if entry[0] < dispatched]
    writer.close(queues=close.get("queues", True), spare_segments=1)
    times = (NOW_MS + count * 100,) * 2
    (root / "checkpoint").write_bytes(struct.pack(">5q", *times, 0, 0, 0).ljust(4096, b"\0"))
    if not clean:
        (root / "abort").write_text("4711")
    return writer


def numbers(store: MessageStore) -> list[int]:
    """All messages of a store of `java_store`, sorted."""
    found = []
    for topic, queue_ids in store.topics().items():
        for queue_id in queue_ids:
            found += [int(body.rstrip(b"\0")) for body in bodies(store, topic, queue_id)]
    return sorted(found)


@pytest.mark.parametrize("clean", [True, False])
def test_a_store_of_java_is_read_to_the_last_message(tmp_path: Path, clean: bool) -> None:
    """Clean or killed, with V1 and V2 records and IPv6 hosts, and then written on."""
    writer = java_store(tmp_path, clean=clean)
    settings = small(tmp_path, **JAVA)
    store = opened(settings)
    assert store.recovered.position == writer.position
    assert numbers(store) == list(range(300))
    assert (tmp_path / "abort").read_text() == str(os.getpid())
    for number in range(300, 420):
        send(store, body=b"%d" % number)
        store.poll()
    store.close()
    assert not (tmp_path / "abort").exists()
    assert not verify(settings).problems
    store = opened(settings)
    assert numbers(store) == list(range(420))
    store.close()


def test_what_is_written_is_not_thereby_flushed(tmp_path: Path) -> None:
    """After a kill in the same boot the whole log is synced before anything vouches for it."""
    java_store(tmp_path, clean=False)
    settings = small(tmp_path, **JAVA)
    opened(settings).abandon()
    store = opened(settings)
    assert store.recovered.proof == "synced"
    assert not (tmp_path / "aerobee.progress").exists()
    assert store.commit_log.flushed_position == 0
    settle(store)
    assert store.commit_log.flushed_position == store.commit_log.position
    assert (tmp_path / "aerobee.progress").exists()
    store.close()


def test_a_clean_store_is_not_walked(tmp_path: Path) -> None:
    """After a clean stop recovery begins where the newest queue entry ends."""
    java_store(tmp_path, clean=True)
    store = opened(small(tmp_path, **JAVA))
    assert store.recovered.proof == "dispatched"
    assert store.recovered.records == 0
    store.close()


def test_a_killed_store_is_walked_from_the_checkpoint(tmp_path: Path) -> None:
    """RocketMQ's checkpoint, less three seconds, says from which file on."""
    java_store(tmp_path, clean=False)
    store = opened(small(tmp_path, **JAVA))
    assert store.recovered.proof == "timestamp"
    assert store.recovered.begun_at == SEGMENT
    store.abandon()
    shutil.rmtree(tmp_path)
    java_store(tmp_path, clean=False)
    (tmp_path / "checkpoint").unlink()
    store = opened(small(tmp_path, **JAVA))
    assert store.recovered.begun_at == 0
    assert numbers(store) == list(range(300))
    store.close()


@pytest.mark.parametrize("dispatched", [0, 1, 250, 299])
@pytest.mark.parametrize("clean", [True, False])
def test_records_without_entries_are_dispatched(
    tmp_path: Path, dispatched: int, clean: bool
) -> None:
    """What the killed broker had not yet put into queues is put there."""
    java_store(tmp_path, clean=clean, dispatched=dispatched)
    settings = small(tmp_path, **JAVA)
    store = opened(settings)
    store.close()
    report = verify(settings)
    assert report.records == 300 and report.entries == 300, report.problems


def damaged_queues(root: Path, damage: str) -> None:
    """Do something to the queue files of topic orders."""
    directory = root / "consumequeue" / "orders"
    path = directory / "0" / f"{0:020d}"
    if damage == "all queues missing":
        shutil.rmtree(directory.parent)
    elif damage == "topic missing":
        shutil.rmtree(directory)
    elif damage == "file missing":
        path.unlink()
    elif damage == "empty":
        os.truncate(path, 0)
    elif damage == "truncated":
        os.truncate(path, 333)
    elif damage == "zeros":
        path.write_bytes(bytes(path.stat().st_size))
    elif damage == "garbage":
        path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize(
    "damage",
    ["all queues missing", "topic missing", "file missing", "empty", "truncated", "zeros",
     "garbage"],
)  # fmt: skip
def test_lost_queue_files_are_written_again(tmp_path: Path, damage: str, killed: bool) -> None:
    """Our progress file tells what queues must have; the log has all that they need."""
    settings = small(tmp_path, queue_file_entries=1000)
    store = opened(settings)
    for number in range(100):
        send(store, queue_id=number % 2, body=b"%d" % number, tags=f"t{number % 3}")
        store.poll()
    settle(store)
    if killed:
        store.abandon()
    else:
        store.close()
    damaged_queues(tmp_path, damage)
    store = opened(settings)
    assert numbers(store) == list(range(100))
    assert store.queue("orders", 0).entry(49)[2] == java_string_hash("t2")
    store.close()
    assert not verify(settings).problems


def test_our_progress_lets_recovery_start_inside_a_file(tmp_path: Path) -> None:
    """Without the note of this boot, the flushed position is where it starts."""
    settings = small(tmp_path)
    store = opened(settings)
    send(store, body=b"first")
    settle(store)
    flushed = store.commit_log.position
    send(store, body=b"second")
    store.abandon()
    (tmp_path / "aerobee.written").unlink()
    store = opened(settings)
    assert (store.recovered.proof, store.recovered.begun_at) == ("flushed", flushed)
    assert store.recovered.records == 1
    assert bodies(store) == [b"first", b"second"]
    settle(store)
    store.abandon()
    (tmp_path / "aerobee.progress").write_bytes(b"AEROPRG1 nonsense")
    (tmp_path / "aerobee.written").unlink()
    store = opened(settings)
    assert store.recovered.begun_at == 0
    assert bodies(store) == [b"first", b"second"]
    store.close()


def test_entries_behind_the_end_of_the_log_are_forgotten(tmp_path: Path) -> None:
    """A queue that knows more than the log, as after a torn write, is cut back."""
    settings = small(tmp_path)
    store = opened(settings)
    for number in range(5):
        send(store, body=b"%d" % number)
    for _ in range(4):
        append(store, body=b"never committed")
    write_queues(store)
    store.abandon()
    store = opened(settings)
    assert len(bodies(store)) == 5
    assert store.recovered.truncated_queues == 1
    store.close()


def test_a_log_without_files_has_no_queues(tmp_path: Path) -> None:
    """Where the log was deleted the queues point nowhere and go, too."""
    store = opened(small(tmp_path))
    send(store)
    store.close()
    shutil.rmtree(tmp_path / "commitlog")
    store = opened(small(tmp_path))
    assert store.queue("orders", 0).max_offset == 0
    assert send(store) == 0
    assert bodies(store) == [b"hello"]
    store.close()


def test_a_log_whose_head_is_gone(tmp_path: Path) -> None:
    """Queues written again from what is left begin at the offsets that are left."""
    writer = java_store(tmp_path, clean=False, queues=False)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    settings = small(tmp_path, **JAVA)
    store = opened(settings)
    queue = store.queue("orders", 1)
    assert 0 < queue.min_offset < queue.max_offset == len(writer.entries["orders", 1])
    left = numbers(store)
    assert left == list(range(left[0], 300))
    store.close()
    assert not verify(settings).problems


def test_transactions_in_between_have_no_entries(tmp_path: Path) -> None:
    """Prepared and rolled-back records are passed over, committed ones are not."""
    writer = StoreWriter(tmp_path, SEGMENT)
    for sys_flag in (0, 4, 8, 12, 0):
        writer.append(
            Stored(body=b"%d" % sys_flag, sys_flag=sys_flag), dispatched=sys_flag not in (4, 12)
        )
    writer.close(queues=False)
    store = opened(small(tmp_path, **JAVA))
    assert bodies(store) == [b"0", b"8", b"0"]
    store.close()


def test_delayed_messages_are_due_by_their_level(tmp_path: Path) -> None:
    """Rebuilt, the tags code of SCHEDULE_TOPIC_XXXX is the delivery time in ms."""
    writer = StoreWriter(tmp_path, SEGMENT)
    for level in ("1", "3", "99", "0", "x"):
        pairs = {"TAGS": "a", "DELAY": level}
        writer.append(
            Stored("SCHEDULE_TOPIC_XXXX", properties=properties(pairs), store_timestamp=NOW_MS)
        )
    writer.close(queues=False)
    store = opened(small(tmp_path, delay_levels_ms=(1000, 5000, 10_000), **JAVA))
    queue = store.queue("SCHEDULE_TOPIC_XXXX", 0)
    codes = [queue.entry(offset)[2] for offset in range(5)]
    assert codes == [NOW_MS + 1000, NOW_MS + 10_000, NOW_MS + 10_000, 97, 97]
    store.close()


@pytest.mark.parametrize(
    ("at", "value"), [(4, b"\0\0\0\1"), (0, b"\x7f\xff\xff\xff"), (28, b"\1"), (84, b"\xff"),
                      (90, b"x"), (93, b"\x7f"), (39, b"\x30")]
)  # fmt: skip
def test_a_damaged_record_costs_no_other(tmp_path: Path, at: int, value: bytes) -> None:
    """Wrong magic, size, position, body, crc, topic length, hosts: the one behind it counts."""
    settings = small(tmp_path)
    store = opened(settings)
    places = [send(store, body=b"body%d" % number) for number in range(4)]
    store.abandon()
    (tmp_path / "aerobee.written").unlink()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[places[2] + at : places[2] + at + len(value)] = value
    path.write_bytes(data)
    store = opened(settings)
    assert bodies(store) == [b"body0", b"body1", b"body3"]
    assert [(span.begin, span.end) for span in store.damage] == [(places[2], places[3])]
    send(store, body=b"after")
    store.close()
    store = opened(settings)
    assert bodies(store) == [b"body0", b"body1", b"body3", b"after"]
    store.close()
    assert not other_problems(settings)


def test_wrong_log_files_are_errors_and_stay_as_they_are(tmp_path: Path) -> None:
    """Wrong size or another log: an error with file, sizes and setting; not a byte is changed."""
    java_store(tmp_path, clean=True)
    logs = tmp_path / "commitlog"
    with pytest.raises(WrongFileSize, match="65536 bytes, the settings say 16384"):
        opened(small(tmp_path))
    os.truncate(logs / f"{0:020d}", 300 << 20)
    with pytest.raises(WrongFileSize, match="has 314572800 bytes"):
        opened(small(tmp_path, **JAVA))
    os.truncate(logs / f"{0:020d}", SEGMENT)
    (logs / f"{200 * SEGMENT:020d}").write_bytes(bytes(SEGMENT))
    with pytest.raises(StoreDamaged, match="is missing"):
        opened(small(tmp_path, **JAVA))
    assert not (tmp_path / "abort").exists()


def test_an_empty_last_log_file_is_removed(tmp_path: Path) -> None:
    """A crash between making a file and giving it its size leaves one."""
    settings = small(tmp_path)
    store = opened(settings)
    send(store)
    store.abandon()
    (tmp_path / "commitlog" / f"{16384:020d}").touch()
    store = opened(settings)
    assert bodies(store) == [b"hello"]
    store.close()


def test_a_log_of_nothing_but_empty_files_is_begun_anew(tmp_path: Path) -> None:
    """Two files were made, and the power went before the disk had the length of either."""
    (tmp_path / "commitlog").mkdir()
    for begin in (0, 16384):
        (tmp_path / "commitlog" / f"{begin:020d}").touch()
    store = opened(small(tmp_path))
    send(store)
    assert bodies(store) == [b"hello"]
    store.close()


def test_a_topic_made_again_keeps_its_newest_life(tmp_path: Path) -> None:
    """After a deletion offsets start over; a rebuild from the log ends with the later messages."""
    settings = small(tmp_path)
    store = opened(settings)
    for number in range(5):
        send(store, body=b"old%d" % number)
    assert store.delete_topic("orders")
    assert not store.delete_topic("orders")
    for number in range(2):
        send(store, body=b"new%d" % number)
    store.abandon()
    shutil.rmtree(tmp_path / "consumequeue")
    store = opened(settings)
    assert bodies(store) == [b"new0", b"new1"]
    store.close()


def test_bulk_and_single_checks_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long log is checked as columns; the result is that of walking it."""
    monkeypatch.setattr("aerobee.storage.recovery.recovery.BULK_BYTES_MIN", 1)
    writer = java_store(tmp_path, clean=False, dispatched=280)
    (tmp_path / "checkpoint").unlink()
    settings = small(tmp_path, **JAVA)
    store = opened(settings)
    assert store.recovered.position == writer.position
    assert store.recovered.records == 300
    assert numbers(store) == list(range(300))
    store.close()
    assert not verify(settings).problems


def test_hosts_of_a_test_are_those_of_a_record() -> None:
    """36 bytes with IPv4 on both sides."""
    assert len(hosts()) == 36
