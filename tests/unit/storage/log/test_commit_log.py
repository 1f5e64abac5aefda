"""The log: its bytes are RocketMQ's, its limits hold, its files roll with a blank."""

import re
import struct
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, append, bodies, hosts, opened, send, small
from support.disks.stores import Stored, pack_record

from aerobee.remoting.message.record import Record, decode_record, encode_record
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogBusy, LogFull, LogUnavailable, MessageTooLarge
from aerobee.storage.log.segment import ALONE_BYTES
from aerobee.storage.store import MessageStore

V4, V6 = ("10.0.0.7", 4000), ("2001:db8::7", 4000)


@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("at", [V4, V6])
@pytest.mark.parametrize("topic", ["t", "orders", "x" * 127, "y" * 128, "z" * 255])
def test_records_are_byte_for_byte_rocketmqs(
    tmp_path: Path, topic: str, born: tuple[str, int], at: tuple[str, int]
) -> None:
    """What append packs is what the record codec, and an independent writer, make of it."""
    store = opened(small(tmp_path))
    queue = store.queue(topic, 3)
    sys_flag = (16 if born is V6 else 0) | (32 if at is V6 else 0)
    packed = hosts(NOW_MS + 5, born, retries=2, store=at)
    for _ in range(2):
        position = store.commit_log.append(
            queue, 7, sys_flag, NOW_MS, packed, b"body" * 9, b"TAGS\x01a\x02", 97
        )
    store.commit_log.commit()
    data = store.record_at(position)
    assert data is not None
    record = Record(
        topic=topic, queue_id=3, flag=7, queue_offset=1, position=position, sys_flag=sys_flag,
        born_timestamp=NOW_MS, born_host=born, store_timestamp=NOW_MS + 5, store_host=at,
        reconsume_times=2, body=b"body" * 9, properties=b"TAGS\x01a\x02",
    )  # fmt: skip
    assert bytes(data) == encode_record(record)
    stored = Stored(
        topic, 3, b"body" * 9, b"TAGS\x01a\x02", 7, sys_flag, NOW_MS, NOW_MS + 5, born, at, 2
    )
    assert bytes(data) == pack_record(stored, 1, position)
    assert queue.entry(1) == (position, len(data), 97)
    store.close()


def test_nothing_is_visible_before_commit(tmp_path: Path) -> None:
    """Appended messages have positions and offsets, but are in no file until committed."""
    store = opened(small(tmp_path))
    first, second = append(store), append(store, body=b"world")
    assert (first, second) == (0, 90 + 5 + 7)
    assert store.queue("orders", 0).max_offset == 2
    assert store.record_at(first) is None
    store.commit_log.commit()
    store.commit_log.commit()  # the second does nothing
    assert bodies(store) == [b"hello", b"world"]
    assert store.commit_log.committed == store.commit_log.position == 2 * 102
    store.close()


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_files_roll_with_a_blank(tmp_path: Path, mode: str) -> None:
    """A record that leaves no room for a blank goes to the next file; the blank says how much."""
    store = opened(small(tmp_path, flush_mode=mode))
    sent = [b"%d" % number + bytes(number % 5 * 300) for number in range(120)]
    places = []
    for body in sent:
        places.append(send(store, body=body))
        store.poll()
    assert bodies(store) == sent
    assert store.commit_log.position > 3 * 16384
    first = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    ends = max(place for place in places if place < 16384)
    blank_at = ends + decode_record(first, ends).total_size
    assert struct.unpack_from(">iI", first, blank_at) == (16384 - blank_at, 0xCBD43194)
    assert not first[blank_at + 8 :].strip(b"\0")
    assert min(place for place in places if place > ends) == 16384
    store.close()


def test_a_record_fills_a_file_but_for_the_blank(tmp_path: Path) -> None:
    """The largest record leaves exactly eight bytes; one byte more is refused."""
    store = opened(small(tmp_path, segment_bytes=4096))
    fixed = 90 + len("orders") + 1
    largest = bytes(4096 - 8 - fixed)
    with pytest.raises(MessageTooLarge, match="a log file holds 4096"):
        append(store, body=largest + b"x")
    assert send(store, body=largest) == 0
    assert send(store, body=b"next") == 4096
    assert bodies(store) == [largest, b"next"]
    store.close()


def test_limits_are_refused_without_a_trace(tmp_path: Path) -> None:
    """A refused message leaves no byte in the log and no entry in the queue."""
    store = opened(small(tmp_path, message_bytes_max=100, segment_bytes=1 << 17))
    with pytest.raises(MessageTooLarge, match="maxMessageSize is 100"):
        append(store, body=bytes(101))
    with pytest.raises(MessageTooLarge, match="32767"):
        append(store, properties=b"p" * 32768, body=b"")
    assert store.queue("orders", 0).max_offset == 0
    assert store.commit_log.position == 0
    send(store, body=bytes(100))
    assert len(bodies(store)) == 1
    store.close()


def test_refusals_name_their_reason(tmp_path: Path) -> None:
    """A full disk and a closing store refuse, each in its own way; reads go on."""
    store = opened(small(tmp_path))
    send(store, body=b"kept")
    store.commit_log.set_disk_full(True)
    assert not store.commit_log.writable
    with pytest.raises(LogFull, match="fuller than allowed"):
        append(store)
    store.commit_log.set_disk_full(False)
    send(store, body=b"again")
    store.commit_log.refuse("maintenance")
    with pytest.raises(LogUnavailable, match="maintenance"):
        append(store)
    assert bodies(store) == [b"kept", b"again"]
    store.close()


def test_room_can_be_asked_for_ahead(tmp_path: Path) -> None:
    """`require` makes a batch all or nothing."""
    store = opened(small(tmp_path))
    store.commit_log.require(5000)
    with pytest.raises(MessageTooLarge):
        store.commit_log.require(20_000)
    store.commit_log.set_disk_full(True)
    with pytest.raises(LogFull):
        store.commit_log.require(100)
    store.abandon()


def test_an_append_waits_for_prepared_space(tmp_path: Path) -> None:
    """Where nothing is prepared, nothing is touched: the append is refused as busy."""
    store = opened(small(tmp_path))
    store.allocator.want = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(LogBusy):
        for _ in range(1000):
            send(store, body=bytes(100))
    assert store.commit_log.position <= 8192
    assert store.statistics().space_lacks == 1
    store.abandon()


def test_a_failed_write_loses_what_was_not_acknowledged(tmp_path: Path) -> None:
    """With SYNC_FLUSH a write error ends the log where it was, and it says so from then on."""
    store = opened(small(tmp_path, flush_mode="SYNC_FLUSH"))
    send(store, body=b"safe")

    def fails(fd: int, data: bytes, at: int) -> None:
        raise OSError(5, "Input/output error")

    append(store, body=b"lost")
    store.segments.items[0]._files = Files()
    store.segments.items[0]._files.write = fails  # type: ignore[method-assign,assignment]
    with pytest.raises(LogUnavailable, match="Input/output error"):
        store.commit_log.commit()
    assert not store.commit_log.writable
    assert bodies(store) == [b"safe"]
    with pytest.raises(LogUnavailable):
        append(store)
    store.abandon()
    store = opened(small(tmp_path))
    assert bodies(store) == [b"safe"]
    store.close()


def packed(store: MessageStore, sizes: list[int]) -> bytes:
    """Append parts of such sizes, as compiled code does; return all they have."""
    whole = b""
    for number, size in enumerate(sizes):
        part = bytes([number % 255 + 1]) * size
        store.commit_log.append_packed(part)
        whole += part
    return whole


@pytest.mark.parametrize(
    "sizes", [[ALONE_BYTES], [ALONE_BYTES] * 3, [ALONE_BYTES * 4, 1], [ALONE_BYTES, 5], [7] * 400]
)
def test_parts_of_any_size_come_one_behind_the_other(tmp_path: Path, sizes: list[int]) -> None:
    """Large ones are written as they are, small ones together: the file is the same."""
    store = opened(
        small(tmp_path, segment_bytes=1 << 20, window_bytes=1 << 20, first_window_bytes=1 << 20)
    )
    whole = packed(store, sizes)
    store.commit_log.commit()
    assert store.commit_log.committed == store.commit_log.position == len(whole)
    assert store.commit_log.read(0, len(whole) + 1) == whole
    assert store.segments.items[0].read(len(whole), 100) == bytes(100)
    store.abandon()


def test_an_error_behind_a_part_that_was_written_loses_all_of_them(tmp_path: Path) -> None:
    """Nobody is told of the first one, and the log ends where it ended."""
    store = opened(
        small(tmp_path, segment_bytes=1 << 20, window_bytes=1 << 20, first_window_bytes=1 << 20)
    )
    send(store, body=b"safe")
    began = store.commit_log.committed
    files, written = Files(), list[int]()

    def fails(fd: int, data: bytes, at: int) -> None:
        if written:
            raise OSError(5, "Input/output error")
        Files.write(files, fd, data, at)
        written.append(len(data))

    files.write = fails  # type: ignore[method-assign,assignment]
    store.segments.items[0]._files = files
    packed(store, [ALONE_BYTES, ALONE_BYTES])
    with pytest.raises(LogUnavailable, match="Input/output error"):
        store.commit_log.commit()
    assert written == [ALONE_BYTES]
    assert store.commit_log.committed == store.commit_log.position == began
    assert not store.commit_log.writable
    assert bodies(store) == [b"safe"]
    store.abandon()
    store = opened(
        small(tmp_path, segment_bytes=1 << 20, window_bytes=1 << 20, first_window_bytes=1 << 20)
    )
    assert bodies(store) == [b"safe"]
    store.close()


def test_any_position_may_be_asked_for(tmp_path: Path) -> None:
    """Only the start of a record is one; anything else, hostile or not, is answered with None."""
    store = opened(small(tmp_path))
    positions = {send(store, body=bytes(50)) for _ in range(200)}
    for position in (*range(-3, 400), 8000, 1 << 62):
        assert (store.record_at(position) is not None) == (position in positions)
        assert (store.store_time_at(position) == NOW_MS) == (position in positions)
    store.close()


def test_tags_are_hashed_over_utf_16() -> None:
    """The helper of these tests uses the hash that Java uses."""
    assert java_string_hash("TagA") == 2598919


def test_the_worked_example_of_the_format_is_true(tmp_path: Path) -> None:
    """FORMAT.md shows the bytes of one record; these are what the log writes."""
    text = (Path(__file__).parents[4] / "storage" / "FORMAT.md").read_text()
    text = text.partition("## Record\n")[2].partition("\n## ")[0]
    rows = re.findall(
        r"^000000\d0((?:  [0-9a-f]{2}(?: [0-9a-f]{2}){0,3}){1,4})", text, re.MULTILINE
    )
    assert len(rows) == 7
    store = opened(small(tmp_path))
    send(store, tags="A")
    data = store.record_at(0)
    assert data is not None and bytes(data) == bytes.fromhex("".join(rows))
    store.close()


def test_the_closing_blank_waits_for_the_helper(tmp_path: Path) -> None:
    """Beyond the prepared space the helper may still be writing zeros; they would end the log."""
    store = opened(small(tmp_path, window_bytes=16_384))
    send(store)
    log, allocator, tail = store.commit_log, store.allocator, store.segments.items[0]
    allocator.prepare_now(tail.end, 16_384)  # the next file is ready, this one is not
    tail.ready = log.position + 4
    allocator._ordered = tail
    log._set_limit()
    with pytest.raises(LogBusy):
        append(store, body=bytes(16_200))
    assert tail.read(log.position, 8) == bytes(8) and log.position < tail.end
    allocator._ordered = None  # the helper has ended, or has done its order
    assert append(store, body=bytes(16_200)) == tail.end
    store.commit_log.commit()
    assert [len(body) for body in bodies(store)] == [5, 16_200]
    store.close()
