"""Record boundaries: the chain of sizes decides, whatever stands in bodies."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.stores import MAGIC_BLANK, Stored, pack_record

from aerobee.spark.at_rest import blocks
from aerobee.spark.at_rest.blocks import Block, Stop, scan_blocks
from aerobee.spark.at_rest.log_files import Segment, SegmentFile

pytestmark = pytest.mark.usefixtures("loops")
BASE = 5 << 30
Chained = Callable[[list[bytes]], Block]


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


@pytest.fixture
def chain(tmp_path: Path) -> Chained:
    """The first block of the records in a file that begins at BASE."""

    def read(parts: list[bytes]) -> Block:
        path = tmp_path / "log"
        path.write_bytes(b"".join(parts))
        segment = Segment(str(path), BASE, path.stat().st_size)
        with SegmentFile(segment) as file:
            found = next(scan_blocks(file, BASE, segment.end))
        return found

    return read


def starts_of(parts: list[bytes]) -> list[int]:
    """Where each part starts in the joined bytes."""
    return [sum(map(len, parts[:at])) for at in range(len(parts))]


@pytest.mark.parametrize("seed", range(20))
def test_all_records_are_found(chain: Chained, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of them is read at a time."""
    monkeypatch.setattr(blocks, "READ_BYTES", [70, 500, 1 << 20][seed % 3])
    parts = records(40, seed)
    truth = starts_of(parts)
    found = chain(parts)
    assert found.starts.tolist() == truth
    assert found.sizes.tolist() == [len(part) for part in parts]
    assert (found.end - BASE, found.stop) == (sum(map(len, parts)), Stop.PART)


def test_record_inside_a_body_is_no_record(chain: Chained) -> None:
    """A body may hold a whole record with the right position."""
    first = records(1)[0]
    outer_head = len(pack_record(Stored(body=b""), 1, 0)) - 1 - len("orders") - 2
    inner_at = BASE + len(first) + outer_head
    inner = pack_record(Stored(body=b"fake"), 9, inner_at)
    outer = pack_record(Stored(body=inner), 1, BASE + len(first))
    assert outer.index(inner) == outer_head, "the fake stands where it says it stands"
    last = pack_record(Stored(), 2, BASE + len(first) + len(outer))
    parts = [first, outer, last]
    assert chain(parts).starts.tolist() == starts_of(parts)


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
def test_chain_says_why_it_ends(chain: Chained, tail: bytes, stop: Stop) -> None:
    """What follows the last record is told apart."""
    parts = records(3)
    found = chain([*parts, tail])
    assert found.starts.tolist() == starts_of(parts)
    assert (found.end - BASE, found.stop) == (sum(map(len, parts)), stop)


def test_cut_record_is_left_for_the_next_block(chain: Chained) -> None:
    """A record whose end lies behind the block is not part of the chain."""
    parts = records(4)
    for cut in (1, 30, 40, len(parts[3]) - 1):
        found = chain([*parts[:3], parts[3][:cut]])
        assert found.starts.tolist() == starts_of(parts)[:3]
        assert found.stop is Stop.PART
