"""Columns that need more than a gather: unpacked bodies, wild times, chosen types, selections."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from support.disks.stores import Stored, pack_record, properties, tag_hash

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.records import unpacking
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.damage import STRICT
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import SLACK_BYTES
from aerobee.spark.records.selection import EVERYTHING, Limits, Selection
from aerobee.spark.topics import TopicChoice


def records_of(*messages: Stored) -> Records:
    """The messages as one chunk that stands at log position 5000."""
    raw: list[bytes] = []
    for number, message in enumerate(messages):
        raw.append(pack_record(message, number, 5000 + sum(map(len, raw))))
    sizes = np.array([len(record) for record in raw], np.int64)
    data = np.frombuffer(b"".join(raw) + bytes(SLACK_BYTES), np.uint8)
    return Records(data, 5000, np.cumsum(sizes) - sizes, sizes)


def bodies(records: Records, *, decompress: bool) -> list[bytes]:
    """The body column."""
    decoder = Decoder(arrow_schema(["body"]), decompress=decompress)
    return [body for batch in decoder.batches(records) for body in batch["body"].to_pylist()]


def test_compressed_bodies_stay_as_stored_unless_asked() -> None:
    """Every codec of sysFlag's bits 8 to 10, beside bodies that are not compressed."""
    text = b"hello " * 50
    packed = [
        (zlib.compress(text), 1),
        (lz4.frame.compress(text), 1 | 1 << 8),
        (zstandard.compress(text), 1 | 2 << 8),
        (zlib.compress(text), 1 | 3 << 8),
        (b"plain", 0),
        (b"plain, but with codec bits", 1 << 8),
    ]
    records = records_of(*(Stored(body=body, sys_flag=flag) for body, flag in packed))
    assert bodies(records, decompress=False) == [body for body, _ in packed]
    assert bodies(records, decompress=True) == [text] * 4 + [body for body, _ in packed[4:]]


@pytest.mark.parametrize("room", [64 << 20, 100, 1])
def test_body_that_cannot_be_unpacked_stays_as_it_is_stored(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lies and bombs harm themselves alone; batches are cut where they grow, in their order."""
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES_MAX", room)
    monkeypatch.setattr(unpacking, "BODY_BYTES_MAX", 1000)
    bomb = zlib.compress(bytes(1001))
    sent = [
        (b"plain", 0),
        (b"no zlib", 1),
        (zlib.compress(b"packed" * 30), 1),
        (bomb, 1),
        (zlib.compress(b"cut off")[:-3], 1),
        (b"no lz4", 1 | 0x100),
        (b"no zstd", 1 | 0x200),
        (b"", 1 | 0x200),
        (b"unknown", 1 | 0x700),
        (zlib.compress(b"more"), 1),
    ]
    records = records_of(*(Stored(body=body, sys_flag=flag) for body, flag in sent))
    names = ["queue_offset", "sys_flag", "body"]
    batches = list(Decoder(arrow_schema(names), decompress=True).batches(records))
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    sent[2], sent[9] = (b"packed" * 30, 1), (b"more", 1)
    assert rows == [(number, flag, body) for number, (body, flag) in enumerate(sent)]
    assert (len(batches) == 1) == (room > 1000)


def test_wild_timestamps_do_not_wrap() -> None:
    """A producer's clock may say anything; plain numbers keep what it said."""
    wild = [2**62, -(2**62), 1_700_000_000_123]
    records = records_of(*(Stored(born_timestamp=each) for each in wild))
    column = Decoder(arrow_schema(["born_timestamp"])).decode(records)["born_timestamp"]
    micros = column.cast(pa.int64()).to_pylist()
    assert micros[0] == -micros[1] > 9 * 10**18
    assert column[2].as_py() == datetime.fromtimestamp(1_700_000_000.123, UTC)
    numbers = pa.schema([pa.field("born_timestamp", pa.int64())])
    assert Decoder(numbers).decode(records)["born_timestamp"].to_pylist() == wild


def test_chunk_without_records_has_no_rows() -> None:
    """Nothing there is nothing read."""
    records = records_of()
    assert len(Decoder(arrow_schema(["topic", "body", "tags"])).decode(records)) == 0


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (EVERYTHING, [0, 1, 2, 3]),
        (Selection(topics=frozenset({"a"})), [0, 3]),
        (Selection(topics=frozenset({"a", "b" * 200})), [0, 2, 3]),
        (Selection(since_ms=20), [1, 2, 3]),
        (Selection(since_ms=20, until_ms=40), [1, 2]),
        (Selection(frozenset({"a"}), 41, None), []),
        (Selection(queue_offsets=Limits(1, 3)), [1, 2]),
        (Selection(queue_offsets=Limits(values=frozenset({0, 3}))), [0, 3]),
        (Selection(queue_ids=Limits(high=0)), []),
        (Selection(positions=Limits(low=5001)), [1, 2, 3]),
        (Selection(choice=TopicChoice(pattern="a*")), [0, 1, 3]),
        (Selection(choice=TopicChoice(system=False, retry=False)), [0, 1, 2, 3]),
        (Selection(frozenset({"aa"}), choice=TopicChoice(retry=False)), [1]),
    ],
)
def test_selection_keeps_order_and_bounds(selection: Selection, wanted: list[int]) -> None:
    """Since is included, until is not."""
    records = records_of(
        Stored(topic="a", store_timestamp=10),
        Stored(topic="aa", store_timestamp=20),
        Stored(topic="b" * 200, store_timestamp=30),
        Stored(topic="a", store_timestamp=40),
    )
    found = selection.pick(records)
    assert found.field("queue_offset", np.int64).tolist() == wanted


def test_topics_that_users_did_not_write_to_are_left_out() -> None:
    """Retries and RocketMQ's own, each by its option; names that begin alike stay."""
    topics = ["a", "%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX", "SCHEDULE", "%DLQ%g", "rmq_"]
    records = records_of(*(Stored(topic=topic) for topic in topics))

    def left(*, system: bool = True, retry: bool = True) -> list[str]:
        picked = Selection(choice=TopicChoice(system=system, retry=retry)).pick(records)
        return [topics[at] for at in picked.field("queue_offset", np.int64).tolist()]

    assert left(system=False, retry=False) == ["a", "SCHEDULE", "%DLQ%g", "rmq_"]
    assert left(system=False) == ["a", "%RETRY%g", "SCHEDULE", "%DLQ%g", "rmq_"]
    assert left(retry=False) == [topic for topic in topics if topic != "%RETRY%g"]
    assert left() == topics


def test_checksums_are_compared_on_request() -> None:
    """One flipped bit is told with its record's position."""
    records = records_of(Stored(), Stored(body=b"x" * 300))
    schema = arrow_schema(["topic"])
    assert Decoder(schema, verify_crc=True).checked(records, STRICT) is records
    data = records.data.copy()
    data[int(records.body_at[1]) + 7] ^= 1
    damaged = Records(data, records.base, records.starts, records.sizes)
    assert Decoder(schema).checked(damaged, STRICT) is damaged
    with pytest.raises(CorruptRecord, match=f"log position {records.position(1)}: its body has"):
        Decoder(schema, verify_crc=True).checked(damaged, STRICT)


def test_hash_of_tags_is_java_s() -> None:
    """As the ConsumeQueues hold it, 0 without tags."""
    raw = [properties({"TAGS": "TagA"}), properties({"TAGS": "🐝" * 40}), b""]
    records = records_of(*(Stored(properties=each) for each in raw))
    batch = Decoder(arrow_schema(["tags_code"])).decode(records)
    assert batch["tags_code"].to_pylist() == [tag_hash(each) for each in raw]
