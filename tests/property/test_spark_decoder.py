"""Random stores decode to what a plain struct loop reads from them, in every mode."""

from __future__ import annotations

import json
import string
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.disks.stores import Stored, StoreWriter, properties, read_log, tag_hash
from support.examples import examples

pytest.importorskip("pyarrow")

from support.lake.plans import plan_log, planned_pieces

from aerobee.spark.at_rest import blocks
from aerobee.spark.options.query import parse_options
from aerobee.spark.reading import pieces
from aerobee.spark.records import loops
from aerobee.spark.records.columns import COLUMNS, arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.numpy_loops import NumpyLoops
from aerobee.spark.records.selection import Selection

LOOPS = [NumpyLoops()] if type(loops.chosen) is NumpyLoops else [loops.chosen, NumpyLoops()]
ALL = [column.name for column in COLUMNS]
HOSTS = st.tuples(
    st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str), st.integers(0, 65535)
)
NAMES = st.one_of(
    st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "A"]), st.text(string.ascii_letters, max_size=12)
)
TEXTS = st.text(st.characters(blacklist_characters="\x01\x02", codec="utf-8"), max_size=30)
PROPERTIES = st.one_of(
    st.builds(
        lambda pairs, closed: properties(pairs, closed=closed),
        st.dictionaries(NAMES, TEXTS, max_size=6),
        st.booleans(),
    ),
    st.lists(  # whatever another producer may send: broken pieces, one name twice, no UTF-8
        st.sampled_from([b"TAGS", b"KEYS", b"KEYS\x01v", b"\x01", b"\x02", b"a", b"\xff"]),
        max_size=12,
    ).map(b"".join),
)
MILLISECONDS = st.integers(0, 4_000_000_000_000)
STORED = st.builds(
    Stored,
    topic=st.one_of(
        st.sampled_from(["orders", "%RETRY%group", "t"]),
        st.text(string.ascii_letters, min_size=1, max_size=255),
    ),
    queue_id=st.integers(0, 2),
    body=st.one_of(st.binary(max_size=40), st.binary(min_size=100, max_size=2000)),
    properties=PROPERTIES,
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.sampled_from([0, 0, 0, 1, 2, 4, 8, 12, 64, 128, 256]),
    born_timestamp=MILLISECONDS,
    store_timestamp=MILLISECONDS.filter(bool),
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=st.integers(0, 2**31 - 1),
    prepared_transaction_offset=st.integers(0, 2**62),
)


def rows_of(root: Path, *, properties: str = "map", partition_bytes: int = 4096) -> list[Any]:
    """What the vectorised reader makes of a store, in the order of the log."""
    decoder = Decoder(arrow_schema(ALL, properties))
    plan = plan_log(str(root), Selection(), partition_bytes)
    return [
        row
        for piece in plan.pieces
        for batch in pieces.piece_batches(piece, Selection(), decoder)
        for row in plain(batch.to_pylist())
    ]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Arrow's rows with timestamps as milliseconds and maps as dicts."""
    for row in rows:
        for name in ("store_timestamp", "born_timestamp"):
            row[name] = round(row[name].timestamp() * 1000)
        if isinstance(row["properties"], list):
            assert len(dict(row["properties"])) == len(row["properties"]), "a name stands twice"
            row["properties"] = dict(row["properties"])
    return rows


def expected(root: Path, *, raw: bool = False) -> list[dict[str, Any]]:
    """The same rows from the struct loop."""
    rows = []
    for row in read_log(root):
        raw_properties = row.pop("raw_properties")
        row.update(tags_code=tag_hash(raw_properties), broker="", _corrupt=None)
        rows.append({**row, "properties": raw_properties} if raw else row)
    return rows


@pytest.mark.parametrize("queues", [True, False], ids=["queues", "walk"])
@settings(max_examples=examples(60), deadline=None, print_blob=True)
@given(
    messages=st.lists(st.tuples(STORED, st.booleans()), max_size=40),
    segment_bytes=st.sampled_from([4096, 6000, 1 << 16]),
    raw=st.booleans(),
    spare=st.integers(0, 1),
)
def test_random_stores_decode_as_struct_reads_them(
    queues: bool, messages: list[tuple[Stored, bool]], segment_bytes: int, raw: bool, spare: int
) -> None:
    """Any mix of V1 and V2, IPv4 and IPv6, broken properties, gaps in the queues, many files."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", 3000)  # so that records straddle blocks
        patch.setattr(blocks, "READ_BYTES", 700)  # ... and what is read of them at a time
        patch.setattr(blocks, "BLOCK_RECORDS", 3)  # so that blocks shrink, and grow again
        writer = StoreWriter(Path(folder), segment_bytes)
        for message, dispatched in messages:
            writer.append(message, dispatched=dispatched)
        writer.append(Stored())  # else zeros that end the last record would pass for a torn one
        root = writer.close(queues=queues, spare_segments=spare)
        mode = "binary" if raw else "map"
        for each in LOOPS:
            patch.setattr(loops, "chosen", each)
            assert rows_of(root, properties=mode) == expected(root, raw=raw)


@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(
    messages=st.lists(STORED, max_size=40),
    segment_bytes=st.sampled_from([4096, 1 << 16]),
    gap_bytes=st.sampled_from([0, 500, 1 << 15]),
    tasks=st.integers(1, 4),
)
def test_random_stores_led_by_their_queues_read_the_same(
    messages: list[Stored], segment_bytes: int, gap_bytes: int, tasks: int
) -> None:
    """Every queue assigned by name; with the columns of the queues alone, too."""
    alone = ["topic", "queue_id", "commit_log_offset", "record_bytes"]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("aerobee.spark.at_rest.gathering.GAP_BYTES", gap_bytes)
        writer = StoreWriter(Path(folder) / "s", segment_bytes)
        for message in [*messages, Stored()]:
            writer.append(message)
        root = writer.close()
        topics: dict[str, list[str]] = {}
        for topic, queue_id in writer.entries:
            topics.setdefault(topic, []).append(f"s:{queue_id}")
        options = parse_options(
            {"path": str(root), "assign": json.dumps(topics), "minPartitions": str(tasks)}
        )
        truth = [{**row, "broker": "s"} for row in expected(root)]
        for names in (ALL, alone):
            found = [
                row
                for store_piece in planned_pieces(options, names, options.selection)
                for batch in pieces.piece_batches(
                    store_piece.piece, Selection(), Decoder(arrow_schema(names), broker="s")
                )
                for row in batch.to_pylist()
            ]
            found = plain(found) if names is ALL else found
            found.sort(key=lambda row: int(row["commit_log_offset"]))
            assert found == [{name: row[name] for name in names} for row in truth]
