"""Finding records in pull replies, however many replies there are and whatever bodies hold."""

from __future__ import annotations

import random

import numpy as np
import pytest

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.record import Record, encode_record
from aerobee.spark.records.layout import Ints
from aerobee.spark.records.replies import RUNS_MIN, ReplyBuffer, find_records

ONE = Record(topic="orders", queue_id=1, queue_offset=3, position=9, body=b"body")


def encoded(body: bytes, topic: str = "orders") -> bytes:
    """One record."""
    return encode_record(Record(topic=topic, queue_id=0, queue_offset=0, position=0, body=body))


def find(replies: list[bytes]) -> tuple[Ints, Ints]:
    """What is found in the replies."""
    return find_records(*ReplyBuffer().join(replies))


@pytest.mark.parametrize("count", [1, 2, RUNS_MIN, 3 * RUNS_MIN])
def test_every_record_of_every_reply(count: int) -> None:
    """Of empty replies, long topics, and bodies that look like records, too."""
    chance = random.Random(count)
    replies, sizes = [], []
    for number in range(count):
        records = [
            encoded(chance.randbytes(chance.randrange(1, 900)), "t" * chance.choice([5, 200]))
            for _ in range(chance.randrange(0 if number else 1, 9))
        ]
        if chance.random() < 0.2:
            records.append(encoded(encode_record(ONE) * 3))
        sizes += [len(record) for record in records]
        replies.append(b"".join(records))
    starts, found = find(replies)
    assert found.tolist() == sizes
    assert starts.tolist() == [0, *np.cumsum(sizes)[:-1]]


def test_nothing() -> None:
    """No replies, or only empty ones."""
    for replies in ([], [b"", b""]):
        starts, sizes = find(replies)
        assert not len(starts) and not len(sizes)


@pytest.mark.parametrize("count", [1, RUNS_MIN])
@pytest.mark.parametrize(
    "broken",
    [
        encode_record(ONE)[:-1],
        encode_record(ONE) + b"\0",
        b"\0" * 200,
        (90).to_bytes(4, "big") + encode_record(ONE)[4:],
        b"\x7f\xff\xff\xff" + encode_record(ONE)[4:],
        b"x",
    ],
)
def test_what_is_no_run_of_records_is_refused(count: int, broken: bytes) -> None:
    """With what was found in the record's place."""
    with pytest.raises(CorruptRecord, match="no run of records"):
        find([encode_record(ONE)] * count + [broken])


def test_buffer_is_used_again() -> None:
    """Nothing of earlier replies is left in the way."""
    buffer = ReplyBuffer()
    for replies in ([encoded(b"x" * 5000)] * 3, [encoded(b"y")], [encoded(b"z" * 20)] * 80):
        starts, sizes = find_records(*buffer.join(replies))
        assert len(starts) == len(replies)
        assert sizes.tolist() == [len(replies[0])] * len(replies)
