"""ConsumeQueues that say wrong things, or grow while a read is planned: rows stay right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.disks.stores import Stored, StoreWriter, read_log
from support.lake.plans import planned_pieces

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.at_rest.queue_ranges import queue_bounds
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.options.query import parse_options
from aerobee.spark.planning import store_pieces
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.decode import Decoder

RECORDS = ["topic", "queue_offset", "commit_log_offset", "body"]
ALONE = ["topic", "queue_offset", "commit_log_offset"]
WILD = (1 << 63) - 50  # with a record's length added, no longer a number of 64 bits


def read(store: Path, names: list[str], **options: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    parsed = parse_options({"path": str(store), **options})
    found = []
    for store_piece in planned_pieces(parsed, names, parsed.selection):
        decoder = Decoder(arrow_schema(names), broker=store_piece.broker)
        for batch in piece_batches(
            store_piece.piece, parsed.selection, decoder, DamagePolicy(parsed.mode)
        ):
            found += batch.to_pylist()
    return sorted(found, key=lambda row: row["commit_log_offset"])


@pytest.mark.parametrize("order", [[1, 2, 0], [2, 1, 0, 3], [0, 3, 2, 1]])
def test_entries_that_do_not_ascend_end(tmp_path: Path, order: list[int]) -> None:
    """A damaged queue leads back and forth through the log, and the read comes to its end."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for number in range(4):
        writer.append(Stored(body=b"%d" % number))
        writer.append(Stored(topic="b", body=b"b%d" % number))
    whole = list(writer.entries["orders", 0])
    writer.entries["orders", 0] = [whole[number] for number in order]
    store = writer.close()
    rows = read(store, RECORDS, assign='{"orders": ["0"], "b": ["0"]}', minPartitions="1")
    own = [row["commit_log_offset"] for row in rows if row["topic"] == "orders"]
    assert own == sorted(whole[number][0] for number in order)
    assert sum(row["topic"] == "b" for row in rows) == 4


def test_entry_beyond_all_numbers_is_damage(tmp_path: Path) -> None:
    """It is told like any other entry that points at nothing, and the rest is read."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for _ in range(5):
        writer.append(Stored())
    queue = writer.entries["orders", 0]
    queue[2] = (WILD, queue[2][1], 0)
    store = writer.close()
    options = {"assign": '{"orders": ["0"]}', "endingOffsets": '{"orders": {"0": 5}}'}

    def all_five(*given: Any) -> Mapping[BrokerQueue, QueueRange]:
        return {key: QueueRange(key, 0, 5) for key in queue_bounds(*given)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_pieces, "queue_bounds", all_five)  # the search does not meet each entry
        found = read(store, RECORDS, mode="DROPMALFORMED", **options)
        with pytest.raises(CorruptRecord, match=f"log position {WILD}"):
            read(store, RECORDS, **options)
    assert [row["queue_offset"] for row in found] == [0, 1, 3, 4]


@pytest.mark.parametrize("names", [ALONE, RECORDS], ids=["queues alone", "records"])
@pytest.mark.parametrize("looked_at", ["queue_bounds", "dispatched_end"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_broker_fills_its_queues_while_a_read_is_planned(
    tmp_path: Path, names: list[str], looked_at: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was only in the log at one look, and in a queue at the next, is read exactly once."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for number in range(90):
        topic = "rare" if number % 9 == 0 else "others"
        writer.append(Stored(topic=topic, body=b"x" * 200), dispatched=number < 60)
    store = writer.close()
    look = getattr(store_pieces, looked_at)

    def grow(*given: Any) -> Any:
        found = look(*given) if moment == "after" else None
        for row in read_log(store):
            entry = (row["commit_log_offset"], row["record_bytes"], 0)
            if entry[:2] not in [each[:2] for each in writer.entries[row["topic"], 0]]:
                writer.entries[row["topic"], 0].append(entry)
        writer.close()
        return look(*given) if moment == "before" else found

    monkeypatch.setattr(store_pieces, looked_at, grow)
    rows = read(store, names, subscribe="rare")
    expected = [row["commit_log_offset"] for row in read_log(store) if row["topic"] == "rare"]
    assert [row["commit_log_offset"] for row in rows] == expected


def test_entry_with_a_wild_size_does_not_let_unconfirmed_messages_in(tmp_path: Path) -> None:
    """The last record is torn: no row, however far an entry before it says to reach."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for number in range(5):
        writer.append(Stored(body=b"%d" % number * 99))
    queue = writer.entries["orders", 0]
    queue[3] = (queue[3][0], 1 << 30, queue[3][2])
    store = writer.close()
    path = store / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[queue[4][0] + 95 : queue[4][0] + 99] = bytes(4)  # of its body
    path.write_bytes(data)
    assert [row["queue_offset"] for row in read(store, ALONE)] == [0, 1, 2, 3]
