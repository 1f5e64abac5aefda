"""Record boundaries: the chain of sizes decides, hints only speed it up."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from support.disks.stores import MAGIC_BLANK, Stored, pack_record

from aerobee.spark.at_rest.boundaries import Chain, Stop, find_chain
from aerobee.spark.records.headers import SLACK_BYTES, Bytes

BASE = 5 << 30


def block(*parts: bytes) -> tuple[Bytes, int]:
    """Bytes as a reader has them: with slack behind."""
    joined = b"".join(parts)
    return np.frombuffer(joined + bytes(SLACK_BYTES), np.uint8), len(joined)


def records(count: int, seed: int = 1) -> list[bytes]:
    """Records that follow each other from BASE on."""
    chance = random.Random(seed)
    found: list[bytes] = []
    position = BASE
    for number in range(count):
        message = Stored(body=chance.randbytes(chance.randrange(300)))
        found.append(pack_record(message, number, position))
        position += len(found[-1])
    return found


def chain(parts: list[bytes], hints: list[int] | None = None) -> Chain:
    """The chain in a block, with hints given as places in the block."""
    data, length = block(*parts)
    given = np.array(hints or [], np.int64) + BASE
    return find_chain(data, length, BASE, given)


def starts_of(parts: list[bytes]) -> list[int]:
    """Where each part starts in the joined bytes."""
    return [sum(map(len, parts[:at])) for at in range(len(parts))]


@pytest.mark.parametrize("seed", range(20))
def test_any_hints_give_the_walked_chain(seed: int) -> None:
    """Missing, false and doubled places among the hints change nothing."""
    parts = records(40, seed)
    truth = starts_of(parts)
    chance = random.Random(seed)
    hints = {start for start in truth if chance.random() < chance.choice([0, 0.5, 0.95, 1])}
    hints |= {chance.randrange(sum(map(len, parts))) for _ in range(chance.choice([0, 5, 50]))}
    found = chain(parts, sorted(hints))
    assert found.starts.tolist() == truth
    assert found.sizes.tolist() == [len(part) for part in parts]
    assert (found.end, found.stop) == (sum(map(len, parts)), Stop.PART)


def test_record_inside_a_body_is_no_record() -> None:
    """A body may hold a whole record with the right position; a hint at it is refused."""
    first = records(1)[0]
    outer_head = len(pack_record(Stored(body=b""), 1, 0)) - 1 - len("orders") - 2
    inner_at = BASE + len(first) + outer_head
    inner = pack_record(Stored(body=b"fake"), 9, inner_at)
    outer = pack_record(Stored(body=inner), 1, BASE + len(first))
    assert outer.index(inner) == outer_head, "the fake stands where it says it stands"
    last = pack_record(Stored(), 2, BASE + len(first) + len(outer))
    parts = [first, outer, last]
    for hints in ([], [len(first) + outer_head], [0, len(first) + outer_head, *starts_of(parts)]):
        assert chain(parts, sorted(set(hints))).starts.tolist() == starts_of(parts)


@pytest.mark.parametrize(
    ("tail", "stop"),
    [
        (b"", Stop.PART),
        (bytes(7), Stop.PART),
        (bytes(8), Stop.ZERO),
        (bytes(500), Stop.ZERO),
        (struct.pack(">iI", 8, MAGIC_BLANK), Stop.BLANK),
        (struct.pack(">iI", 90, MAGIC_BLANK) + bytes(82), Stop.BLANK),
        (b"\xff" * 200, Stop.BAD),
        (struct.pack(">iI", 40, 0xDAA320A7) + bytes(200), Stop.BAD),
        (pack_record(Stored(), 0, BASE - 1), Stop.BAD),
    ],
)
def test_chain_says_why_it_ends(tail: bytes, stop: Stop) -> None:
    """What follows the last record is told apart."""
    parts = records(3)
    for hints in ([], starts_of(parts)):
        found = chain([*parts, tail], hints)
        assert found.starts.tolist() == starts_of(parts)
        assert (found.end, found.stop) == (sum(map(len, parts)), stop)


def test_cut_record_is_left_for_the_next_block() -> None:
    """A record whose end lies behind the block is not part of the chain."""
    parts = records(4)
    for cut in (1, 30, 40, len(parts[3]) - 1):
        found = chain([*parts[:3], parts[3][:cut]], starts_of(parts))
        assert found.starts.tolist() == starts_of(parts)[:3]
        assert found.stop is Stop.PART
