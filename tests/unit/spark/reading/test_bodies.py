"""A query of bodies alone is answered in one pass over the log, any other as before."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.disks.stores import Stored, StoreWriter

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.at_rest.log_files import list_segments
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.errors import DataLost
from aerobee.spark.options.query import USERS_MESSAGES
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.reading import bodies
from aerobee.spark.reading.bodies import bodies_suffice, body_batches
from aerobee.spark.reading.known_topics import ALL_COUNT
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records import loops
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.numpy_loops import MORE, OTHER, BlockPart, NumpyLoops
from aerobee.spark.records.selection import EVERYTHING, Limits, Selection
from aerobee.spark.topics import TopicChoice

pytestmark = pytest.mark.skipif(
    type(loops.chosen) is NumpyLoops, reason="built without a C compiler"
)
SCHEMA = arrow_schema(["body"])


def stored(folder: Path, *messages: Stored) -> Piece:
    """The messages as one piece of a store."""
    writer = StoreWriter(folder, 64 << 20)
    for message in messages:
        writer.append(message)
    (segment,) = list_segments(str(writer.close() / "commitlog"))
    return Piece(segment, 0, writer.position)


def read(piece: Piece, selection: Selection = USERS_MESSAGES) -> list[pa.RecordBatch]:
    """What a task makes of the piece."""
    return list(piece_batches(piece, selection, Decoder(SCHEMA)))


def in_one_pass(piece: Piece, taken: list[bytes]) -> int:
    """How far one pass comes."""
    with OpenSegment(piece.segment) as file:
        reading = body_batches(file, piece, SCHEMA, USERS_MESSAGES.choice, ALL_COUNT)
        while True:
            try:
                taken += next(reading)["body"].to_pylist()
            except StopIteration as end:
                return int(end.value)


@pytest.mark.parametrize(
    ("decoder", "selection", "suffice"),
    [
        (Decoder(SCHEMA), EVERYTHING, True),
        (Decoder(SCHEMA), USERS_MESSAGES, True),
        (Decoder(SCHEMA), Selection(choice=TopicChoice(retry=False)), True),
        (Decoder(SCHEMA), Selection(choice=TopicChoice(pattern="a")), False),
        (Decoder(SCHEMA), Selection(choice=TopicChoice(names=frozenset("a"))), False),
        (Decoder(SCHEMA), Selection(topics=frozenset("a")), False),
        (Decoder(SCHEMA), Selection(since_ms=1), False),
        (Decoder(SCHEMA), Selection(queue_ids=Limits(high=1)), False),
        (Decoder(SCHEMA, decompress=True), EVERYTHING, False),
        (Decoder(SCHEMA, verify_crc=True), EVERYTHING, False),
        (Decoder(arrow_schema(["body", "topic"])), EVERYTHING, False),
        (Decoder(arrow_schema(["properties"])), EVERYTHING, False),
    ],
)
def test_only_bodies_as_stored_are_enough(
    decoder: Decoder, selection: Selection, suffice: bool
) -> None:
    """Whatever needs more of a record than its body and topic is decoded."""
    assert bodies_suffice(decoder, selection) is suffice


def test_one_pass_takes_all_whole_records(tmp_path: Path) -> None:
    """Empty, long and IPv6 ones, those across two reads, and more than a batch has room for."""
    messages = [Stored(body=bytes([n % 256]) * (n % 700)) for n in range(9000)]
    messages[10] = Stored(body=b"x" * (3 << 20))
    messages[4000] = Stored(body=b"6", born_host=("::1", 5), store_host=("::2", 6))
    messages[5000] = Stored(topic="t" * 200, body=b"long name")
    piece = stored(tmp_path, *messages)
    taken: list[bytes] = []
    assert in_one_pass(piece, taken) == piece.end
    assert taken == [message.body for message in messages]
    batches = read(piece)
    assert max(len(batch) for batch in batches) <= bodies.BATCH_RECORDS
    assert [body for batch in batches for body in batch["body"].to_pylist()] == taken


def test_topics_of_rocketmq_are_left_out(tmp_path: Path) -> None:
    """By their names or how they begin; others that begin alike stay."""
    topics = ["a", "%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX", "SCHEDULE", "%DLQ%g", "rmq_"]
    piece = stored(tmp_path, *(Stored(topic=topic, body=topic.encode()) for topic in topics))
    taken: list[bytes] = []
    assert in_one_pass(piece, taken) == piece.end
    assert taken == [b"a", b"SCHEDULE", b"%DLQ%g", b"rmq_"]
    (batch,) = read(piece, EVERYTHING)
    assert batch["body"].to_pylist() == [topic.encode() for topic in topics]


def test_damage_ends_the_pass_and_is_told(tmp_path: Path) -> None:
    """The pass stops at the record; the readers of blocks say what is wrong there."""
    messages = [Stored(body=b"%d" % n) for n in range(20)]
    piece = stored(tmp_path, *messages)
    path = Path(piece.segment.path)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"\xda\xa3\x20\xa7", 0, piece.end // 2) - 4
    data[at + 4] = 0
    path.write_bytes(data)
    taken: list[bytes] = []
    assert in_one_pass(piece, taken) == at
    assert taken == [message.body for message in messages[: len(taken)]] != []
    with pytest.raises(CorruptRecord, match=f"at log position {at} "):
        read(piece)


def test_file_that_became_shorter_is_told(tmp_path: Path) -> None:
    """A task fails, or ends with what was there."""
    piece = stored(tmp_path, *(Stored(body=b"x" * 1000) for _ in range(2000)))
    os.truncate(piece.segment.path, piece.end // 2)
    with pytest.raises(DataLost, match="was cut after the query was planned"):
        read(piece)
    lenient = DamagePolicy(fail_on_data_loss=False)
    left = piece_batches(piece, EVERYTHING, Decoder(SCHEMA), lenient)
    assert 500 < sum(len(batch) for batch in left) < 1000


@pytest.mark.parametrize("length", [0, 35, 36, 90, 500, 1 << 62])
def test_no_length_leads_out_of_the_data(length: int) -> None:
    """Whatever a caller says is there: zeros are no record, and nothing beyond them is read."""
    data, out, offsets = np.zeros(500, np.uint8), np.empty(9, np.uint8), np.zeros(3, np.int32)
    known = ALL_COUNT.before, ALL_COUNT.table
    found = loops.chosen.bodies(BlockPart(data, 0, length, 0), (), known, (offsets, out, 0))
    assert found == (0, 0, MORE if length < 36 else OTHER)
