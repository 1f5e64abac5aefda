"""Cutting a log into pieces loses nothing and doubles nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.disks.stores import Stored, StoreWriter
from support.lake.plans import plan_log

from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.planning.log_pieces import PIECE_BYTES_MAX, PIECE_BYTES_MIN, cut, piece_bytes
from aerobee.spark.records.selection import EVERYTHING, Selection


@given(
    count=st.integers(0, 5),
    end=st.integers(0, 6000),
    target=st.integers(1, 3000),
    every=st.integers(1, 700),
)
def test_pieces_cover_the_log_up_to_its_end(count: int, end: int, target: int, every: int) -> None:
    """Whatever the queues know about record starts."""
    segments = [LogSegment(str(at), at * 1000, 1000) for at in range(count)]
    pieces = cut(segments, end, target, lambda low: -(-low // every) * every)
    covered = min(end, count * 1000)
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces)][:-1]
    assert (pieces[-1].end if pieces else 0) == covered
    for piece in pieces:
        assert piece.segment.base <= piece.start < piece.end <= piece.segment.end
        assert piece.start == piece.segment.base or piece.start % every == 0


def test_without_knowledge_of_record_starts_files_stay_whole() -> None:
    """A piece must start at a record."""
    segments = [LogSegment("a", 0, 1000), LogSegment("b", 1000, 1000)]
    pieces = cut(segments, 1500, 10, lambda low: None)
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 1000), (1000, 1500)]


def test_pieces_are_large_enough_to_pay_for_a_task() -> None:
    """Small logs are not shredded, large ones do not make one task."""
    assert piece_bytes(1000, 8) == PIECE_BYTES_MIN
    assert piece_bytes(1 << 40, 8) == PIECE_BYTES_MAX
    assert piece_bytes(16 * (100 << 20), 8) == 100 << 20
    assert piece_bytes(1000, 8, 10) == 100
    assert piece_bytes(16 * (100 << 20), 8, 2) == 100 << 20


def test_files_outside_the_time_range_are_not_read(tmp_path: Path) -> None:
    """Judged by first records, with room for a clock that was set back."""
    writer = StoreWriter(tmp_path, 1 << 12)
    hour = 3_600_000
    for number in range(40):
        writer.append(Stored(body=b"x" * 400, store_timestamp=hour * (number + 1)))
    writer.close()
    everything = plan_log(str(tmp_path), EVERYTHING).pieces
    assert len(everything) >= 5
    late = plan_log(str(tmp_path), Selection(since_ms=hour * 40)).pieces
    assert late == everything[-1:]
    early = plan_log(str(tmp_path), Selection(until_ms=hour)).pieces
    assert early == everything[:1]
    assert plan_log(str(tmp_path), Selection(until_ms=hour // 2)).pieces == []
