"""What is asked for decides which rows there are; how a read goes about it does not."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter
from support.disks.stores import Stored, StoreWriter, properties
from support.lake.spark_rows import rows

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.at_rest import queue_hints
from aerobee.spark.errors import OptionError

QUEUES_ALONE = {"columns": "topic,queue_id,queue_offset,commit_log_offset"}
TAGGED = properties({"TAGS": "a"})


def offsets(found: list[dict[str, Any]]) -> list[int]:
    """The offsets of the rows."""
    return sorted(row["queue_offset"] for row in found)


@pytest.mark.parametrize("queues_max", [512, 8])
def test_messages_that_are_in_no_queue_yet_are_read(
    tmp_path: Path, queues_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there are too many queues to look at each, and few messages are wanted."""
    monkeypatch.setattr(queue_hints, "QUEUES_MAX", queues_max)
    writer = StoreWriter(tmp_path / "s", 1 << 22)
    for number in range(20):
        writer.append(Stored(queue_id=number, body=b"x" * 3000))
    for number in range(20):
        writer.append(Stored(topic="small", body=b"%d" % number), dispatched=number < 10)
    for number in range(50):
        writer.append(Stored(queue_id=number % 20), dispatched=False)
    store = writer.close()
    assert len(rows(store)) == len(rows(store, **QUEUES_ALONE)) == 90
    small = rows(store, subscribe="small")
    assert [row["body"] for row in small] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("queues_max", [512, 2])
def test_first_messages_of_a_store_are_in_no_queue_yet(
    tmp_path: Path, queues_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders are there, entries are not: all is read from the log."""
    monkeypatch.setattr(queue_hints, "QUEUES_MAX", queues_max)
    writer = StoreWriter(tmp_path / "s", 1 << 22)
    for number in range(5):
        writer.append(Stored(queue_id=number), dispatched=False)
    store = writer.close()
    assert len(rows(store)) == len(rows(store, **QUEUES_ALONE)) == 5


def ext_store(root: Path) -> Path:
    """Ten messages whose entries name a place in the consumequeue_ext in place of a hash."""
    writer = StoreWriter(root, 1 << 20)
    for number in range(10):
        writer.append(Stored(properties=properties({"TAGS": "ab"[number % 2]})))
    entries = writer.entries["orders", 0]
    entries[4:] = [
        (*entry[:2], -(1 << 63) + number * 46) for number, entry in enumerate(entries[4:])
    ]
    return writer.close()


def test_addresses_in_the_place_of_hashes_are_no_hashes(tmp_path: Path) -> None:
    """`enableConsumeQueueExt`: filters keep such messages, and hashes come from their records."""
    store = ext_store(tmp_path / "s")
    tagged: list[Filter] = [EqualTo(("tags",), "a")]
    assert offsets([row for row in rows(store, tagged) if row["tags"] == "a"]) == [0, 2, 4, 6, 8]
    found = rows(store, columns="tags_code,queue_offset")
    assert sorted((row["queue_offset"], row["tags_code"]) for row in found) == [
        (number, ord("ab"[number % 2])) for number in range(10)
    ]
    assert len(rows(store, **QUEUES_ALONE)) == 10


@pytest.mark.usefixtures("loops")
def test_messages_of_deleted_topics_are_nowhere(tmp_path: Path) -> None:
    """With a filter, without one, by topic, by tag, bodies alone, or by the queues."""
    writer = StoreWriter(tmp_path / "s", 4096)
    for number in range(30):
        writer.append(Stored(topic="gone", properties=TAGGED, body=b"gone"))
        writer.append(Stored(properties=TAGGED, body=b"%d" % number))
    store = writer.close()
    shutil.rmtree(store / "consumequeue" / "gone")
    gone, own = EqualTo(("topic",), "gone"), EqualTo(("topic",), "orders")
    tag = EqualTo(("tags",), "a")
    asked: list[tuple[list[Filter], dict[str, str]]] = [
        ([], {}),
        ([own], {}),
        ([tag], {}),
        ([], {"subscribe": "orders"}),
        ([], {"subscribePattern": ".*"}),
        ([], {"subscribe": "gone,orders", "failOnDataLoss": "false"}),
        ([], QUEUES_ALONE),
        ([], {"columns": "topic,queue_offset,tags", "minPartitions": "9"}),
    ]
    for filters, options in asked:
        assert offsets(rows(store, filters, **options)) == list(range(30)), options
    assert rows(store, [gone]) == []
    assert {row["body"] for row in rows(store, columns="body")} == {
        b"%d" % number for number in range(30)
    }
    with pytest.raises(OptionError, match="there is no topic 'gone'"):
        rows(store, subscribe="gone")


@pytest.mark.usefixtures("loops")
def test_new_topic_that_has_no_queue_yet_is_read(tmp_path: Path) -> None:
    """Behind the last message that is in a queue, a topic without any is a new one."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for number in range(10):
        writer.append(Stored(topic="orders" if number < 5 else "new"), dispatched=number < 5)
    store = writer.close()
    shutil.rmtree(store / "consumequeue" / "new")
    for options in ({}, QUEUES_ALONE, {"columns": "body"}):
        assert len(rows(store, **options)) == 10
    assert len(rows(store, subscribe="new")) == 5


def test_copy_of_a_log_alone_has_messages_of_deleted_topics(tmp_path: Path) -> None:
    """Nothing tells there which topics were deleted."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    writer.append(Stored(topic="gone"))
    assert len(rows(writer.close(queues=False), subscribe="gone")) == 1


def test_clock_that_went_back_within_a_file_hides_no_message(tmp_path: Path) -> None:
    """By hours, once: the files before and behind are judged by where they begin and end."""
    writer, times = StoreWriter(tmp_path / "s", 1 << 14), []
    start, hour = 1_760_000_000_000, 3_600_000
    for number in range(400):
        times.append(start + number * 1000 - (2 * hour if number >= 200 else 0))
        writer.append(Stored(store_timestamp=times[-1]))
    store = writer.close()
    for low, high in (
        (start - 2 * hour + 200_000, start - 2 * hour + 230_000),
        (start, start + 60_000),
        (start + 100_000, start + 250_000),
        (start - 2 * hour + 390_000, start - 2 * hour + 400_000),
    ):
        given = {"startingTimestamp": str(low), "endingTimestamp": str(high)}
        assert len(rows(store, **given)) == sum(low <= each < high for each in times) > 0


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Ten small messages and 18 large ones behind them; where the small ones begin."""
    writer = StoreWriter(tmp_path_factory.mktemp("long") / "s", 1 << 25)
    places = [writer.append(Stored(body=b"b%d" % number)) for number in range(10)]
    for _ in range(18):
        writer.append(Stored(topic="later", body=b"x" * 1_000_000))
    return writer.close(), places


@pytest.mark.parametrize("size", [5, -5, 99, 99 * 3 + 7, 5_000_000, 12_000_000, 30_000_000])
@pytest.mark.parametrize("columns", ["queue_offset,_corrupt", "queue_offset,body,_corrupt"])
@pytest.mark.usefixtures("loops")
def test_wrong_size_loses_one_message(
    long_store: tuple[Path, list[int]], size: int, columns: str
) -> None:
    """Its neighbours are read, also those that its size reaches into or over."""
    store, places = long_store
    with (store / "commitlog" / f"{0:020d}").open("r+b") as file:  # each test writes it anew
        file.seek(places[3])
        file.write(struct.pack(">i", places[4] - places[3] + size))
    found = rows(store, mode="PERMISSIVE", columns=f"topic,commit_log_offset,{columns}")
    told = [row for row in found if row["_corrupt"]]
    whole = [row["queue_offset"] for row in found if row["topic"] == "orders"]
    assert whole == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [row["commit_log_offset"] for row in told] == [places[3]]
    assert len(found) == 9 + 18 + 1
    assert len(rows(store, mode="DROPMALFORMED")) == 9 + 18
    with pytest.raises(CorruptRecord):
        rows(store)


def test_checksums_are_verified_whatever_columns_are_read(tmp_path: Path) -> None:
    """Also those that the ConsumeQueues would tell alone."""
    writer = StoreWriter(tmp_path / "s", 1 << 26)
    for _ in range(20_000):
        writer.append(Stored(body=b"x" * 1000))
    store = writer.close()
    path = store / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert len(rows(store, **QUEUES_ALONE)) == 20_000
    for columns in (QUEUES_ALONE["columns"], "body"):
        with pytest.raises(CorruptRecord, match="checksum"):
            rows(store, columns=columns, verifyCrc="true")
