"""Record boundaries: the chain of sizes decides, whatever stands in bodies or hints."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from support.disks.stores import MAGIC_BLANK, Stored, StoreWriter, pack_record

from aerobee.spark.at_rest import blocks
from aerobee.spark.at_rest.blocks import Block, Stop, scan_blocks
from aerobee.spark.at_rest.log_files import LogSegment, list_segments
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_hints import StartHints
from aerobee.spark.records.layout import Ints

pytestmark = pytest.mark.usefixtures("loops")
BASE = 5 << 30


class Chained(Protocol):
    """The first block of some records, with hints given as places in the block."""

    def __call__(self, parts: list[bytes], hints: Iterable[int] = (), /) -> Block: ...


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

    def read(parts: list[bytes], hints: Iterable[int] = (), /) -> Block:
        path = tmp_path / "log"
        path.write_bytes(b"".join(parts))
        segment = LogSegment(str(path), BASE, path.stat().st_size)
        given = np.array(sorted(hints), np.int64) + BASE

        def between(low: int, high: int) -> Ints:
            return given[(given >= low) & (given < high)]

        with OpenSegment(segment) as file:
            return next(scan_blocks(file, BASE, segment.end, hints=between))

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


@pytest.mark.parametrize("seed", range(20))
def test_any_hints_give_the_walked_chain(chain: Chained, seed: int) -> None:
    """Missing and false places among the hints change nothing."""
    parts = records(40, seed)
    truth = starts_of(parts)
    chance = random.Random(seed)
    hints = {start for start in truth if chance.random() < chance.choice([0, 0.5, 0.95, 1])}
    hints |= {chance.randrange(sum(map(len, parts))) for _ in range(chance.choice([0, 5, 50]))}
    found = chain(parts, hints)
    assert found.starts.tolist() == truth
    assert found.sizes.tolist() == [len(part) for part in parts]
    assert (found.end - BASE, found.stop) == (sum(map(len, parts)), Stop.PART)


def test_hints_are_what_the_queues_beside_a_file_tell(tmp_path: Path) -> None:
    """All records that have an entry, of any part of the file; none without queues."""
    writer = StoreWriter(tmp_path / "store", 1 << 20)
    for number in range(30):
        writer.append(Stored(topic=f"t{number % 3}", body=bytes(number)))
    root, end = writer.close(queues=True), writer.position
    (segment,) = list_segments(str(root / "commitlog"))
    with OpenSegment(segment) as file:
        truth = next(scan_blocks(file, 0, end)).starts.tolist()
    hints = StartHints(segment, end)
    assert hints.between(0, end).tolist() == truth
    assert hints.between(truth[4] + 1, truth[9]).tolist() == truth[5:9]
    shutil.rmtree(root / "consumequeue")
    assert not len(StartHints(segment, end).between(0, end))


def test_record_inside_a_body_is_no_record(chain: Chained) -> None:
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
        assert chain(parts, set(hints)).starts.tolist() == starts_of(parts)


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
    for hints in ([], starts_of(parts)):
        found = chain([*parts, tail], hints)
        assert found.starts.tolist() == starts_of(parts)
        assert (found.end - BASE, found.stop) == (sum(map(len, parts)), stop)


def test_cut_record_is_left_for_the_next_block(chain: Chained) -> None:
    """A record whose end lies behind the block is not part of the chain."""
    parts = records(4)
    for cut in (1, 30, 40, len(parts[3]) - 1):
        found = chain([*parts[:3], parts[3][:cut]], starts_of(parts))
        assert found.starts.tolist() == starts_of(parts)[:3]
        assert found.stop is Stop.PART
