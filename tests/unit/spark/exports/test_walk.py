"""Exports along the log: what is met there counts if it is what the queues promise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.disks.stores import Stored, StoreWriter, pack_record
from support.lake.exports import go_on, grown, message, stored, visible

from aerobee.spark.errors import ExportFailed
from aerobee.spark.exports import task as export_task
from aerobee.spark.exports.exporter import plan_to
from aerobee.spark.exports.reads import AlongLog, PieceReading, Source, readings
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import SLACK_BYTES
from aerobee.spark.records.tally import Found, QueueTally

pytestmark = pytest.mark.usefixtures("inline", "loops")


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each task came by its messages."""
    taken: list[str] = []

    def told(source: Source) -> Iterator[PieceReading]:
        for reading in readings(source):
            taken.append("walk" if isinstance(reading, AlongLog) else "entries")
            yield reading

    monkeypatch.setattr(export_task, "readings", told)
    return taken


def test_all_topics_are_met_on_a_walk(tmp_path: Path, ways: list[str]) -> None:
    """Over several files, and from where the last run ended."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    for count in (100, 101, 700):
        go_on(grown(store, count), lake)
        assert visible(lake) == stored(store)
    assert ways == ["walk"] * 3


def test_many_queues_are_met_on_walks_along_the_log(
    tmp_path: Path, ways: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks share out the log, not the queues, of which each would go through all of the log."""
    monkeypatch.setattr("aerobee.spark.exports.plan.piece_bytes", lambda size, cores: size // 4)
    topics = [f"topic-{number}" for number in range(30)]
    store = grown(tmp_path / "store", 900, lambda number: message(number, topics))
    pieces = [piece for _, piece in plan_to(store, tmp_path / "lake").pieces(1)]
    starts = [piece.log_start for piece in pieces if isinstance(piece, EntryPiece)]
    assert len(starts) >= 4 and starts == sorted(set(starts))
    go_on(store, tmp_path / "lake")
    assert visible(tmp_path / "lake") == stored(store)
    assert ways == ["walk"] * len(starts)


def test_few_messages_among_many_others_are_found_by_their_queue(
    tmp_path: Path, ways: list[str]
) -> None:
    """A walk would read what nobody asked for."""
    topics = ["rare", *["orders"] * 9]
    store = grown(tmp_path / "store", 300, lambda number: message(number, topics))
    go_on(store, tmp_path / "lake", topics=["rare"])
    assert visible(tmp_path / "lake") == [place for place in stored(store) if place[1] == "rare"]
    assert ways == ["entries"]


def test_what_others_have_in_between_stays_out(tmp_path: Path, ways: list[str]) -> None:
    """Unwanted topics, and what is in no queue yet and says the offset behind its queue's last."""
    writer = StoreWriter(tmp_path / "store", 1 << 15)
    for number in range(60):
        late = Stored(body=b"%d" % number, queue_id=number % 3)
        writer.append(late, dispatched=number < 50 or number % 3 > 0)
        if number % 2:
            writer.append(Stored(topic="others", body=b"%d" % number))
    store = writer.close()
    go_on(store, tmp_path / "lake", topics=["orders"])
    found = visible(tmp_path / "lake")
    assert len(found) == len(set(found)) == 57
    assert {place[1] for place in found} == {"orders"}
    assert ways == ["walk"]


def test_offsets_of_all_kinds_are_tallied() -> None:
    """What no queue limits is wanted, however wild."""
    tally = QueueTally("b")
    offsets = [5, -1, -(2**63), 0]
    (records,) = chunks([(Stored(), offset) for offset in offsets], iter([4]))
    assert tally.topic_numbers(records).tolist() == [0] * 4
    assert tally.found() == {BrokerQueue("b", "orders", 0): Found(4, -(2**63), 5)}


def test_topics_are_told_apart_wherever_they_differ() -> None:
    """At each of their bytes, short or long; by their lengths, and their queues."""
    names = [f"{'a' * at}b{'a' * (size - at - 1)}" for size in range(1, 41) for at in range(size)]
    names += [f"tenants-{number:04}-received" for number in range(1000)]  # many in one place
    sent = [(Stored(topic=name, queue_id=queue), 0) for name in names for queue in (0, 1)]
    tally = QueueTally("b")
    for records in chunks(sent * 2, iter([len(sent)] * 2)):
        expected = [number for number in range(len(names)) for _ in range(2)]
        assert tally.topic_numbers(records).tolist() == expected
    assert tally.topics == names
    assert {found.rows for found in tally.found().values()} == {2}


@pytest.mark.parametrize("queue_id", [0, 1])
def test_a_record_that_no_queue_points_at_is_left_to_the_entries(
    tmp_path: Path, ways: list[str], queue_id: int
) -> None:
    """It says an offset that another record has: a topic that was made anew leaves such ones."""
    writer = StoreWriter(tmp_path / "store", 1 << 15)
    for number in range(40):
        twin = Stored(body=b"%d" % number, queue_id=queue_id)
        if number == 17:
            writer.append(twin, dispatched=False)
        writer.append(twin)
        writer.append(Stored(topic="billing", queue_id=1))
    store = writer.close()
    go_on(store, tmp_path / "lake")
    found = visible(tmp_path / "lake")
    assert len(found) == len(set(found)) == 80
    assert ways == ["walk", "entries"]


def test_what_is_no_record_is_left_to_the_entries(tmp_path: Path, ways: list[str]) -> None:
    """Bytes that no queue points at do not matter; the files of the walk are gone."""
    writer = StoreWriter(tmp_path / "store", 1 << 12)
    places = [writer.append(Stored(body=b"%d" % each), dispatched=each != 9) for each in range(99)]
    store = writer.close()
    with next((store / "commitlog").glob("0" * 20)).open("r+b") as file:
        file.seek(places[9] + 4)
        file.write(b"XXXX")
    go_on(store, tmp_path / "lake")
    assert [place[3] for place in visible(tmp_path / "lake")] == list(range(98))
    assert ways == ["walk", "entries"]


def test_a_queue_that_points_at_another_ones_message_is_not_believed(
    tmp_path: Path, ways: list[str]
) -> None:
    """Neither way: the export is refused, and leaves nothing."""
    writer = StoreWriter(tmp_path / "store", 1 << 15)
    for number in range(20):
        writer.append(Stored(topic="ab"[number % 2], body=b"%d" % number))
    entries = writer.entries
    entries["a", 0][5], entries["b", 0][5] = entries["b", 0][5], entries["a", 0][5]
    writer.entries["c", 0].append(entries["a", 0][7])
    store = writer.close()
    with pytest.raises(ExportFailed, match=r"is damaged"):
        go_on(store, tmp_path / "lake")
    assert visible(tmp_path / "lake") == [] and ways == ["walk", "entries"]


def chunks(messages: list[tuple[Stored, int]], sizes: Iterator[int]) -> Iterator[Records]:
    """Records of these messages and offsets, some at a time."""
    while messages:
        count = next(sizes)
        part, messages = messages[:count], messages[count:]
        raw = [pack_record(each, offset, 0) for each, offset in part]
        lengths = np.array([len(record) for record in raw])
        data = np.frombuffer(b"".join(raw) + bytes(SLACK_BYTES), np.uint8)
        yield Records(data, 0, np.cumsum(lengths) - lengths, lengths)


def test_queues_are_told_apart_whatever_their_names() -> None:
    """Hundreds of them, of long names that differ in the middle, and of ids of all kinds."""
    chance = random.Random(5)
    names = [f"{'x' * (number % 150)}-{number}-{'y' * (number % 9)}" for number in range(150)]
    queues = [(name, each) for name in names for each in (0, 1, 2**31 - 1, -1)]
    offsets = dict.fromkeys(queues, 0)
    messages = []
    for _ in range(3000):
        queue = chance.choice(queues)
        messages.append((Stored(topic=queue[0], queue_id=queue[1]), offsets[queue]))
        offsets[queue] += 1
    tally = QueueTally("b")
    told = []
    for records in chunks(messages, iter(lambda: chance.randrange(1, 200), None)):
        told += [tally.topics[number] for number in tally.topic_numbers(records).tolist()]
    assert told == [each.topic for each, _ in messages]
    assert tally.found() == {
        BrokerQueue("b", *queue): Found(count, 0, count - 1)
        for queue, count in offsets.items()
        if count
    }


@pytest.mark.parametrize(
    ("offsets", "complete"),
    [
        ([3, 4, 5, 6], True),
        ([2, 3, 4, 5, 6, 7], True),
        ([3, 4, 6], False),
        ([3, 4, 5], False),
        ([4, 5, 6], False),
        ([3, 4, 5, 5, 6], False),
        ([3, 4, 4, 6], False),
        ([3, 5, 4, 6], False),
        ([3, 4, 5, 6, 3], False),
        ([], False),
    ],
)
def test_a_range_is_complete_when_each_offset_was_met_once_and_in_order(
    offsets: list[int], complete: bool
) -> None:
    """Others of the queue, and other queues, are no matter."""
    tally = QueueTally("b", [QueueRange(BrokerQueue("b", "orders", 0), 3, 7)])
    messages = [(Stored(), offset) for offset in offsets]
    messages = [(Stored(topic="others"), 4), *messages, (Stored(queue_id=1), 5)]
    for records in chunks(messages, iter([2, 1] * 9)):
        wanted = tally.topic_numbers(records) >= 0
        numbers = records.field("queue_offset", np.int64)
        topics = [records.data[at : at + 6].tobytes() for at in records.topic_at]
        assert wanted.tolist() == [
            topic == b"orders" and queue == 0 and 3 <= number < 7
            for topic, queue, number in zip(
                topics, records.field("queue_id", np.int64), numbers, strict=True
            )
        ]
    assert tally.complete is complete
