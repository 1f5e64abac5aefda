"""Messages of batch queues are rows of their own, however a store is read."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter
from support.disks.stores import Stored, StoreWriter, properties
from support.lake.exports import go_on, visible
from support.lake.spark_rows import rows

from aerobee.spark.at_rest.queue_folders import topic_dirs
from aerobee.spark.at_rest.stores import find_stores, has_queues
from aerobee.spark.errors import DataLost
from aerobee.spark.feeds.followed_store import FollowedStore
from aerobee.spark.topics import ALL_TOPICS
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import IndexShape
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.log.snapshot import LogSnapshot

WRAPPED = 64 | 128
SEGMENT = 1 << 20


def batch(*messages: tuple[bytes, bytes]) -> bytes:
    """Bodies and properties as a producer sends them together."""
    return b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(raw), 0, 0, number, len(body))
        + body + struct.pack(">h", len(raw)) + raw
        for number, (body, raw) in enumerate(messages)
    )  # fmt: skip


def inner(number: int) -> tuple[bytes, bytes]:
    """A message with tags, keys and a body of its own."""
    pairs = {"TAGS": "ab"[number % 2], "KEYS": f"k{number}", "UNIQ_KEY": f"u{number}"}
    return b"body %d" % number, properties(pairs)


def fill(
    writer: StoreWriter, begin: int, count: int, *, sys_flag: int = 0, dispatched: bool = True
) -> int:
    """Append a batch to topic `together`; return the offset behind it."""
    body = batch(*map(inner, range(begin, begin + count)))
    if sys_flag & 1:
        body = zlib.compress(body)
    raw = properties({"UNIQ_KEY": f"b{begin}", "INNER_NUM": str(count), "INNER_BASE": str(begin)})
    queue = writer.entries["together", 0]
    assert len(queue) == begin or not dispatched
    stored = Stored("together", 0, body, raw, sys_flag=WRAPPED | sys_flag)
    writer.append(stored, dispatched=dispatched)
    if dispatched:
        queue += [queue[-1]] * (count - 1)
    return begin + count


def single(writer: StoreWriter, number: int) -> int:
    """Append a message by itself."""
    body, raw = inner(number)
    writer.append(Stored("together", 0, body, raw))
    return number + 1


def close(writer: StoreWriter, *, entries: bool = True) -> Path:
    """Put the store on the disk, with batch queues where our broker has them."""
    root = writer.close()
    batches = root / "aerobee.batches"
    batches.mkdir()
    (root / "consumequeue/together").rename(batches / "together")
    table = {"together": {"attributes": {"queue.type": "BatchCQ"}}, "orders": {}}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three batches, one of them packed, and single messages between; another topic's, too."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    offset = fill(writer, 0, 3)
    writer.append(Stored(body=b"plain"))
    offset = single(writer, offset)
    offset = fill(writer, offset, 5, sys_flag=1)
    offset = fill(writer, offset, 2)
    writer.append(Stored(body=b"plain too"))
    assert single(writer, offset) == 12
    return close(writer)


def check(found: list[dict[str, Any]], wanted: range | list[int]) -> None:
    """Each message is there, as a consumer has it."""
    found = sorted(found, key=lambda row: row["queue_offset"])
    assert [row["queue_offset"] for row in found] == list(wanted)
    for row in found:
        number = row["queue_offset"]
        assert bytes(row["body"]) == b"body %d" % number
        assert (row["tags"], row["keys"]) == ("ab"[number % 2], f"k{number}")
        assert row["sys_flag"] & WRAPPED == 0
        assert dict(row["properties"])["UNIQ_KEY"] == f"u{number}"


def test_each_message_is_a_row_along_the_log(store: Path) -> None:
    """Also the bodies alone, which are copied in a pass of their own."""
    found = rows(store)
    check([row for row in found if row["topic"] == "together"], range(12))
    assert [row["body"] for row in found if row["topic"] == "orders"] == [b"plain", b"plain too"]
    bodies = [bytes(row["body"]) for row in rows(store, columns="body")]
    assert sorted(bodies) == sorted([b"plain", b"plain too", *(b"body %d" % n for n in range(12))])
    both = rows(store, columns="flag,body_bytes,body_crc,queue_offset,topic,body")
    for row in (each for each in both if each["topic"] == "together"):
        assert row["body_bytes"] == len(row["body"])
        assert row["body_crc"] == zlib.crc32(row["body"]) & 0x7FFFFFFF
    assert rows(store, verifyCrc="true") == found


@pytest.mark.parametrize(("low", "high"), [(0, 12), (1, 2), (2, 5), (5, 11), (4, 9), (11, 12)])
def test_ranges_cut_through_a_batch(store: Path, low: int, high: int) -> None:
    """By the entries of the queue: no message before or behind the range."""
    start, end = ({"together": {"s:0": at}} for at in (low, high))
    label = {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    check(rows(f"s={store}", subscribe="together", **label), range(low, high))


def test_queues_alone_tell_offsets_and_records_tags(store: Path) -> None:
    """What an entry says of a batch is the record's: sizes and hashes come from the messages."""
    names = "topic,queue_offset,commit_log_offset"
    found = [row for row in rows(store, columns=names) if row["topic"] == "together"]
    assert sorted(row["queue_offset"] for row in found) == list(range(12))
    found = rows(store, subscribe="together", columns="queue_offset,tags_code,record_bytes")
    codes = {row["queue_offset"]: row["tags_code"] for row in found}
    assert codes == {number: ord("ab"[number % 2]) for number in range(12)}
    assert all(100 < row["record_bytes"] < 200 for row in found)


def test_filters_see_the_messages(store: Path) -> None:
    """Entries have the hash of the record's tags: that spares no reading here."""
    tagged: list[Filter] = [EqualTo(("tags",), "b"), EqualTo(("topic",), "together")]
    check([row for row in rows(store, tagged) if row["tags"] == "b"], [1, 3, 5, 7, 9, 11])
    wanted: list[Filter] = [EqualTo(("queue_offset",), 6), EqualTo(("topic",), "together")]
    check(rows(store, wanted), [6])


def test_keys_of_messages_are_looked_for_in_the_batches(tmp_path: Path) -> None:
    """The index of keys knows those of their records alone."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    fill(writer, 0, 3)
    for _ in range(50):
        writer.append(Stored(body=bytes(2000), properties=properties({"KEYS": "other"})))
    store = close(writer)
    log = LogSnapshot(store / "commitlog", 0, writer.position, SEGMENT)
    indexer = Indexer(Files(), store, IndexShape(slots=16, entries=64), lambda: 1_700_000_000.0)
    indexer.open(log, clean=True)
    while indexer.advance(log, 1 << 20):
        pass
    indexer.sync()
    indexer.close()
    keyed: list[Filter] = [EqualTo(("keys",), "k1"), EqualTo(("topic",), "together")]
    check([row for row in rows(store, keyed) if row["keys"] == "k1"], [1])


def test_messages_in_no_queue_yet(tmp_path: Path) -> None:
    """What a broker has yet to dispatch is read along the log."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    fill(writer, 0, 3)
    root = close(writer)
    writer2 = StoreWriter(tmp_path / "t", SEGMENT)
    fill(writer2, 0, 3)
    writer2.entries["together", 0] = writer2.entries["together", 0][:2]  # a part of a batch
    partly = close(writer2)
    check(rows(root), range(3))
    assert {row["queue_offset"] for row in rows(partly, subscribe="together")} >= {0, 1}


def test_a_stream_and_its_looks(store: Path) -> None:
    """A store with a batch queue can be followed, and so can its other topics."""
    (found,) = find_stores(str(store))
    assert has_queues(found)
    followed = FollowedStore(found, ALL_TOPICS)
    bounds = {key.topic: (each.start, each.end) for key, each in followed.look().items()}
    assert bounds == {"together": (0, 12), "orders": (0, 2)}


def units(store: Path, *rows: tuple[int, int, int, int]) -> None:
    """Write RocketMQ's units: position, size, first offset, messages."""
    folder = store / "batchconsumequeue/together/0"
    folder.mkdir(parents=True)
    data = b"".join(
        struct.pack(">qiqqqhii", at, size, 0, 0, first, count, -1, 0)
        for at, size, first, count in rows
    )
    with (folder / f"{0:020}").open("wb") as file:
        file.write(data)
        file.truncate(46 * 1000)


def test_queues_that_lack_what_rocketmq_has_written_do_not_lead(store: Path) -> None:
    """RocketMQ writes units alone: where they go further than our entries, the log is read."""
    units(store, (0, 300, 0, 3), (900, 200, 10, 2))
    (found,) = find_stores(str(store))
    assert has_queues(found)
    (store / "batchconsumequeue/together/0" / f"{0:020}").unlink()
    (store / "batchconsumequeue/together/0").rmdir()
    (store / "batchconsumequeue/together").rmdir()
    units(store, (0, 300, 0, 3), (900, 200, 12, 2))
    assert not has_queues(found)
    check([row for row in rows(store) if row["topic"] == "together"], range(12))


def test_a_store_of_rocketmqs_alone(tmp_path: Path) -> None:
    """It has no entries of batch queues at all."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    fill(writer, 0, 3)
    root = close(writer)
    for path in sorted((root / "aerobee.batches").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "aerobee.batches").rmdir()
    units(root, (0, 300, 0, 3))
    check(rows(root), range(3))


def test_a_queue_that_goes_while_its_units_are_looked_at(store: Path) -> None:
    """A name was listed whose file is gone a moment later: it says nothing."""
    units(store, (0, 300, 0, 3), (900, 200, 10, 2))
    (store / "batchconsumequeue/together/0" / f"{46_000:020}").symlink_to(store / "gone")
    (found,) = find_stores(str(store))
    assert has_queues(found)


def test_topics_that_were_made_again_cost_one_look_at_the_table(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have left folders of both kinds, and there may be thousands of them."""
    for number in range(20):
        (store / "consumequeue" / f"again{number}").mkdir()
        (store / "aerobee.batches" / f"again{number}").mkdir()
    (store / "consumequeue/together").mkdir()
    looks: list[Path] = []
    read = Path.read_bytes

    def look(path: Path) -> bytes:
        looks.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", look)
    found = topic_dirs(str(store / "consumequeue"))
    assert looks == [store / "config/topics.json"]
    assert found["together"] == str(store / "aerobee.batches/together")
    assert found["again7"] == str(store / "consumequeue/again7")


def test_damaged_batches_stay_one_row(tmp_path: Path) -> None:
    """Nobody can say which messages they hold; the others are harmed by none."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    fill(writer, 0, 3)
    raw = properties({"INNER_NUM": "2", "INNER_BASE": "3"})
    writer.append(Stored("together", 0, batch(inner(3), inner(4))[:-1], raw, sys_flag=WRAPPED))
    writer.entries["together", 0].append(writer.entries["together", 0][-1])
    fill(writer, 5, 2)
    found = rows(close(writer), subscribe="together")
    check([row for row in found if row["sys_flag"] & WRAPPED == 0], [0, 1, 2, 5, 6])
    assert [row["queue_offset"] for row in found if row["sys_flag"] & WRAPPED] == [3]


def test_a_batch_behind_which_there_are_no_offsets_stays_one_row(tmp_path: Path) -> None:
    """Nothing protects that number: a bit of it has flipped."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    fill(writer, 0, 3)
    position = writer.position
    fill(writer, 3, 2)
    root = close(writer)
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[position + 20 : position + 28] = ((1 << 63) - 1).to_bytes(8)
    log.write_bytes(data)
    found = rows(root)
    check([row for row in found if row["sys_flag"] & WRAPPED == 0], [0, 1, 2])
    assert [row["queue_offset"] for row in found if row["sys_flag"] & WRAPPED] == [(1 << 63) - 1]


def messages(store: Path, begin: int, plain: int) -> list[tuple[str, str, int, int]]:
    """What a lake has to have."""
    places = [(store.name, "together", 0, number) for number in range(begin)]
    return sorted(places + [(store.name, "orders", 0, number) for number in range(plain)])


@pytest.mark.parametrize("others", [0, 60], ids=["along the log", "by the entries"])
@pytest.mark.usefixtures("inline")
def test_exports_have_each_message_once(tmp_path: Path, others: int) -> None:
    """Run by run, each from where the last one ended, be that within a batch."""
    lake = tmp_path / "lake"
    for rounds in (1, 2, 5):
        writer = StoreWriter(tmp_path / "s", SEGMENT)
        offset = 0
        for number in range(rounds):
            offset = single(writer, fill(writer, offset, 3, sys_flag=number % 2))
            for _ in range(others):
                writer.append(Stored(body=b"x" * 500))
        cut = writer.entries["together", 0][: offset - 2]  # the last two have no entry yet
        whole, writer.entries["together", 0] = writer.entries["together", 0], cut
        for entries in (cut, whole):
            writer.entries["together", 0] = entries
            shutil.rmtree(tmp_path / "s", ignore_errors=True)
            store = close(writer)
            topics = ["together"] if others else None
            go_on(store, lake, **({"topics": topics} if topics else {}))
            wanted = messages(store, len(entries), 0 if others else rounds * others)
            assert visible(lake) == wanted


@pytest.mark.usefixtures("inline")
def test_exports_name_what_a_damaged_batch_takes_along(tmp_path: Path) -> None:
    """The other messages of its queue are exported, where that is allowed."""
    writer = StoreWriter(tmp_path / "s", SEGMENT)
    fill(writer, 0, 3)
    raw = properties({"INNER_NUM": "2", "INNER_BASE": "3"})
    writer.append(Stored("together", 0, batch(inner(3), inner(4))[:-1], raw, sys_flag=WRAPPED))
    writer.entries["together", 0].append(writer.entries["together", 0][-1])
    fill(writer, 5, 2)
    store = close(writer)
    summary = go_on(store, tmp_path / "lake", fail_on_data_loss=False)
    offsets = [offset for _, _, _, offset in visible(tmp_path / "lake")]
    assert offsets == [0, 1, 2, 3, 5, 6], summary
    assert not go_on(store, tmp_path / "lake", fail_on_data_loss=False).messages
    with pytest.raises(DataLost, match="together"):
        go_on(store, tmp_path / "strict")
