"""Compiled loops do to any bytes what the numpy code does that defines them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_spark_decoder import ALL, STORED
from support.disks.stores import Stored, StoreWriter, pack_record
from support.examples import examples

pytest.importorskip("pyarrow")

from aerobee.remoting.words import SYSTEM_TOPICS
from aerobee.spark.at_rest import blocks
from aerobee.spark.at_rest.log_files import list_segments
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.reading import bodies
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records import loops
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.damage import DROPMALFORMED, PERMISSIVE, DamagePolicy
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records, whole_records
from aerobee.spark.records.layout import SLACK_BYTES, Ints
from aerobee.spark.records.numpy_loops import BlockPart, NumpyLoops
from aerobee.spark.records.selection import EVERYTHING, Selection
from aerobee.spark.topics import TopicChoice

pytestmark = pytest.mark.skipif(
    type(loops.chosen) is NumpyLoops, reason="built without a C compiler"
)
DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=9)), max_size=6)
BASE = 1000


def damaged(raw: bytes, damage: list[tuple[float, bytes]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes with some of them replaced, and slack behind."""
    data = np.frombuffer(raw + bytes(SLACK_BYTES), np.uint8).copy()
    for where, patch in damage:
        at = int(where * max(0, len(raw) - len(patch)))
        room = data[at : min(at + len(patch), len(raw))]
        room[:] = np.frombuffer(patch, np.uint8)[: len(room)]
    return data


def both(work: Any) -> tuple[Any, Any]:
    """What comes out with the compiled loops, and without."""
    compiled = work()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "chosen", NumpyLoops())
        return compiled, work()


@settings(max_examples=examples(75), deadline=None, print_blob=True)
@given(messages=st.lists(STORED, max_size=12), damage=DAMAGE, cut=st.integers(0, 150))
def test_chains_end_alike(
    messages: list[Stored], damage: list[tuple[float, bytes]], cut: int
) -> None:
    """Whatever the bytes say: the same records, and the same place where there are no more."""
    raw = b""
    for number, message in enumerate(messages):
        raw += pack_record(message, number, BASE + len(raw))
    data, length = damaged(raw, damage), max(0, len(raw) - cut)

    def work() -> tuple[list[int], list[int], int]:
        starts, sizes = np.empty((2, len(data)), np.int64)
        count, end = loops.chosen.walk(BlockPart(data, 0, length, BASE), starts, sizes)
        return starts[:count].tolist(), sizes[:count].tolist(), end

    compiled, defined = both(work)
    assert compiled == defined


@settings(max_examples=examples(75), deadline=None, print_blob=True)
@given(messages=st.lists(STORED, min_size=1, max_size=12), damage=DAMAGE)
def test_damaged_records_decode_alike(
    messages: list[Stored], damage: list[tuple[float, bytes]]
) -> None:
    """All columns of what is whole, and the same words about what is not."""
    raw, starts = b"", []
    for number, message in enumerate(messages):
        starts.append(len(raw))
        raw += pack_record(message, number, BASE + len(raw))
    ends: Ints = np.array([*starts[1:], len(raw)], np.int64)
    places: Ints = np.array(starts, np.int64)
    data = damaged(raw, damage)

    def work() -> list[Any]:
        told = DamagePolicy(PERMISSIVE)
        decoder = Decoder(arrow_schema(ALL))
        batches: list[Any] = []
        at = 0
        while at < len(places):
            records, bad = whole_records(data, BASE, places[at:], (ends - places)[at:])
            if bad is not None:
                told.note(bad.position, str(bad))
            batches += decoder.rows([records], told)
            at += len(records) + 1
        return [
            [column.to_pylist() for column in batch.columns] for batch in without_times(batches)
        ]

    compiled, defined = both(work)
    assert compiled == defined


NAMED = ("tags", "keys", "properties")
PIECES = st.sampled_from(  # names as long as a word, longer ones that begin alike, and no property
    [
        *(b"TAGS\x01a", b"KEYS\x01k 1", b"UNIQ_KEY\x0142", b"UNIQ_KEY2\x01x", b"A\x01\x01"),
        *(b"CONSUME_START_TIME\x011", b"CONSUME_START_TIMES\x01" + b"2" * 40),
        *(b"TAGS\x01", b"", b"\x01", b"KEYS"),
    ]
)


@settings(max_examples=examples(75), deadline=None, print_blob=True)
@given(rows=st.lists(st.tuples(st.lists(PIECES, max_size=6), st.booleans()), min_size=1))
def test_properties_that_come_again_and_again_are_taken_apart_alike(
    rows: list[tuple[list[bytes], bool]],
) -> None:
    """Those of one record are expected in the next one, which may have others."""
    raw, starts = b"", []
    for number, (pieces, open_ended) in enumerate(rows):
        starts.append(len(raw))
        text = b"".join(piece + b"\x02" for piece in pieces)[: -1 if open_ended else None]
        raw += pack_record(Stored(properties=text), number, len(raw))
    places: Ints = np.array(starts, np.int64)
    sizes = np.diff(places, append=len(raw))

    def work() -> Any:
        records = Records(damaged(raw, []), 0, places, sizes)
        schemas = arrow_schema(NAMED), arrow_schema(NAMED, "binary"), arrow_schema(["keys"])
        return [Decoder(schema).decode(records).to_pylist() for schema in schemas]

    compiled, defined = both(work)
    assert compiled == defined


@settings(max_examples=examples(30), deadline=None, print_blob=True)
@given(messages=st.lists(STORED, min_size=1, max_size=30), damage=DAMAGE)
def test_damaged_files_read_alike(
    messages: list[Stored], damage: list[tuple[float, bytes]]
) -> None:
    """From the file to the rows, those that tell of damage included."""
    with tempfile.TemporaryDirectory() as folder:
        writer = StoreWriter(Path(folder), 1 << 17)
        for message in messages:
            writer.append(message)
        root, end = writer.close(), writer.position
        (segment,) = list_segments(str(root / "commitlog"))
        path = Path(segment.path)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole[:end], damage)[:end].tobytes() + whole[end:])

        def work() -> list[Any]:
            batches = piece_batches(
                Piece(segment, 0, end),
                EVERYTHING,
                Decoder(arrow_schema(ALL)),
                DamagePolicy(PERMISSIVE),
            )
            rows = [batch.to_pylist() for batch in without_times(list(batches))]
            return [row for part in rows for row in part]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "READ_BYTES", 300)  # so that records straddle what is read
            compiled, defined = both(work)
        assert compiled == defined


TOPICS = st.sampled_from(
    ["orders", "%RETRY%group", "%RETRY", "rmq_sys_x", "rmq_sys", "S", *sorted(SYSTEM_TOPICS)[:3]]
)


@settings(max_examples=examples(50), deadline=None, print_blob=True)
@given(
    messages=st.lists(st.tuples(STORED, TOPICS), min_size=1, max_size=30),
    damage=DAMAGE,
    system=st.booleans(),
    retry=st.booleans(),
    longest=st.sampled_from([400, 1500, 8 << 20]),
)
def test_bodies_alone_read_alike(
    messages: list[tuple[Stored, str]],
    damage: list[tuple[float, bytes]],
    system: bool,
    retry: bool,
    longest: int,
) -> None:
    """In one pass, and by blocks: long records, damage, and topics that are left out between."""
    with tempfile.TemporaryDirectory() as folder:
        writer = StoreWriter(Path(folder), 1 << 17)
        for message, topic in messages:
            writer.append(replace(message, topic=topic))
        root, end = writer.close(), writer.position
        (segment,) = list_segments(str(root / "commitlog"))
        path = Path(segment.path)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole[:end], damage)[:end].tobytes() + whole[end:])
        selection = Selection(choice=TopicChoice(system=system, retry=retry))

        def work() -> list[Any]:
            batches = piece_batches(
                Piece(segment, 0, end),
                selection,
                Decoder(arrow_schema(["body"])),
                DamagePolicy(DROPMALFORMED),
            )
            return [body for batch in batches for body in batch["body"].to_pylist()]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bodies, "READ_BYTES", 300)
            patch.setattr(bodies, "RECORD_BYTES_MAX", longest)
            patch.setattr(bodies, "BATCH_RECORDS", 4)
            patch.setattr(bodies, "BATCH_BYTES", 100)
            compiled, defined = both(work)
        assert compiled == defined


def without_times(batches: list[Any]) -> list[Any]:
    """The batches with timestamps as numbers: damaged ones are beyond Python's datetimes."""
    import pyarrow as pa

    times = ("store_timestamp", "born_timestamp")
    schema = arrow_schema(ALL)
    for name in times:
        at = schema.get_field_index(name)
        schema = schema.set(at, pa.field(name, pa.int64()))
    return [
        pa.RecordBatch.from_arrays(
            [
                column.cast(pa.int64()) if name in times else column
                for name, column in zip(schema.names, batch.columns, strict=True)
            ],
            schema=schema,
        )
        for batch in batches
    ]


WILD = (-(1 << 63), -1, 0, 1, 499, 500, 501, (1 << 31) - 1, (1 << 63) - 1)


@pytest.mark.parametrize("start", WILD)
@pytest.mark.parametrize("length", WILD)
def test_no_number_leads_out_of_the_data(start: int, length: int) -> None:
    """Places whose sum is no longer a number of 64 bits are refused like all others outside."""
    record_loops = pytest.importorskip("aerobee.spark.compiled.record_loops")
    data = np.zeros(500, np.uint8)
    starts, lengths = np.array([start], np.int64), np.array([length], np.int64)
    within = 0 <= start <= 500 and 0 <= length <= 500 - start
    assert record_loops.copy(data, starts, lengths, np.empty(500, np.uint8)) is within
    words = np.empty(2, np.int32)
    room, marked = np.empty(500, np.uint8), np.empty((4, 1), np.int64)
    assert record_loops.mark(data, starts, lengths, b"TAGSKEYS", marked) is within
    texts = words.copy(), room, words.copy(), room
    parts = record_loops.take_apart(data, starts, lengths, words, *texts, marked)
    assert (parts == 0) is within
    kinds, places = np.empty(1, np.uint8), np.empty((6, 1), np.int64)
    assert record_loops.locate(data, starts, lengths, kinds, places) == -1  # zeros are no record
