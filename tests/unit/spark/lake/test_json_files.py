"""JSON lines: each message an object, its body as text or in base64 and never as both."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from aerobee.spark.lake.json_files import JsonSink
from aerobee.spark.lake.synced_file import SyncedFile
from aerobee.spark.records.columns import arrow_schema

BODIES = [b"plain", "größer".encode(), b"\xff\x00", b"", b'"\n\\']


def unpack_zstd(data: bytes) -> bytes:
    """A whole zstd file; its head does not tell its length."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.parametrize(
    ("compression", "unpack"), [("gzip", gzip.decompress), ("zstd", unpack_zstd), ("none", bytes)]
)
def test_lines_hold_every_value(
    tmp_path: Path, compression: str, unpack: Callable[[bytes], bytes]
) -> None:
    """Times in ISO 8601, wild ones as numbers; nulls are left out; properties are an object."""
    schema = arrow_schema(["store_timestamp", "tags", "properties", "body"])
    times = [0, 1_795_279_160_602_000, 1, 2, 2**62]
    columns = [
        pa.array(times, pa.int64()).cast(schema.field(0).type),
        pa.array(["a", None, "c", "d", "e"]),
        pa.array([[("k", "v"), ("q", '"')], [], [], [], []], schema.field(2).type),
        pa.array(BODIES),
    ]
    sink = JsonSink(SyncedFile(tmp_path / "file", direct=False), compression)
    table = pa.Table.from_arrays(columns, schema=schema)
    sink.write(table.slice(0, 2))
    sink.write(table.slice(2))
    sink.close()
    data = (tmp_path / "file").read_bytes()
    lines = [json.loads(line) for line in unpack(data).splitlines()]
    assert lines == [
        {
            "store_timestamp": "1970-01-01T00:00:00.000Z",
            "tags": "a",
            "properties": {"k": "v", "q": '"'},
            "body": "plain",
        },
        {"store_timestamp": "2026-11-21T16:39:20.602Z", "properties": {}, "body": "größer"},
        {
            "store_timestamp": "1970-01-01T00:00:00.000Z",
            "tags": "c",
            "properties": {},
            "body_base64": "/wA=",
        },
        {"store_timestamp": "1970-01-01T00:00:00.000Z", "tags": "d", "properties": {}, "body": ""},
        {"store_timestamp": 2**62 // 1000, "tags": "e", "properties": {}, "body": '"\n\\'},
    ]
