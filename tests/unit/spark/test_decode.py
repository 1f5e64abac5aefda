"""Columns that need more than a gather: unpacked bodies, wild times, chosen types, selections."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from support.stores import Stored, pack_record

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark import decode
from aerobee.spark.columns import arrow_schema
from aerobee.spark.decode import Decoder
from aerobee.spark.layout import SLACK_BYTES, Records
from aerobee.spark.selection import EVERYTHING, Selection


def records_of(*messages: Stored) -> Records:
    """The messages as one chunk that stands at log position 5000."""
    raw = [pack_record(message, number, 0) for number, message in enumerate(messages)]
    sizes = np.array([len(record) for record in raw], np.int64)
    data = np.frombuffer(b"".join(raw) + bytes(SLACK_BYTES), np.uint8)
    return Records(data, 5000, np.cumsum(sizes) - sizes, sizes)


def bodies(records: Records, *, decompress: bool) -> list[bytes]:
    """The body column."""
    batch = Decoder(arrow_schema(["body"]), decompress=decompress).decode(records)
    values: list[bytes] = batch["body"].to_pylist()
    return values


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


def test_body_that_cannot_be_unpacked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged ones and bombs: the position leads to the record."""
    first = Stored(body=b"x")
    at = 5000 + len(pack_record(first, 0, 0))
    message = rf"record at log position {at}: its compressed body cannot be unpacked"
    with pytest.raises(CorruptRecord, match=message):
        bodies(records_of(first, Stored(body=b"no zlib", sys_flag=1)), decompress=True)
    monkeypatch.setattr(decode, "BODY_BYTES_MAX", 1000)
    bomb = Stored(body=zlib.compress(bytes(100_000)), sys_flag=1)
    with pytest.raises(CorruptRecord, match=message):
        bodies(records_of(first, bomb), decompress=True)


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
