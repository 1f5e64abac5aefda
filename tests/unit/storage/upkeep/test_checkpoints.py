"""Checkpoints are encoded piece by piece, written beside the loop, and withdrawn in time."""

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import PROGRESS
from aerobee.storage.proofs import progress
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.progress import (
    Progress,
    ProgressTable,
    decode_progress,
    encode_progress,
    read_progress,
)
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.upkeep.checkpoints import Checkpoints

TOPICS = st.sampled_from(["orders", "bills", "%RETRY%grüße", "x" * 300])
KEYS = st.tuples(TOPICS, st.integers(0, 3))


def queue_of(root: Path, topic: str, offset: int) -> ConsumeQueue:
    """A queue that is said to have so many messages on the disk."""
    queue = ConsumeQueue(QueueAccess(Files(), 50), root / topic, topic, 0)
    queue.start_at(offset)
    return queue


@given(st.lists(st.tuples(KEYS, st.integers(0, 1 << 40) | st.none()), max_size=40))
def test_a_table_says_what_was_put_last(
    changes: list[tuple[tuple[str, int], int | None]],
) -> None:
    """Whatever is put and forgotten in any order; an offset of 0 says nothing, so it may stay."""
    table, expected = ProgressTable(), dict[tuple[str, int], int]()
    for key, offset in changes:
        if offset is None:
            table.forget(*key)
            expected.pop(key, None)
        else:
            table.put(*key, offset)
            expected[key] = offset
    head, queues = table.encode(4711, 1_700_000_000_000)
    data = encode_progress(Progress(0, 0))
    assert len(head) == len(data) - 4
    assert len(queues) <= 2 * sum(14 + len(topic.encode()) for topic, _ in expected) + 2 * 314
    found = decoded(head + queues)
    assert (found.position, found.timestamp) == (4711, 1_700_000_000_000)
    assert {key: offset for key, offset in found.queues.items() if offset} == {
        key: offset for key, offset in expected.items() if offset
    }


def test_of_many_queues_few_are_packed_anew_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is lost while topics come and go; what pages had goes to those that come."""
    monkeypatch.setattr(progress, "QUEUES_PER_PAGE", 8)
    table = ProgressTable()
    for number in range(100):
        table.put("t", number, 1 + number)
    for life in range(20):
        for number in range(0, 100, 2):
            table.forget("t", number)
            table.forget("t", number)
        left = decoded(b"".join(table.encode(1, 1))).queues
        assert {key: at for key, at in left.items() if at} == {
            ("t", number): 1 + number for number in range(1, 100, 2)
        }
        for number in range(0, 100, 2):
            table.put("t", number, 1 + number + life)
        assert len(table._pages) <= 13
    assert decoded(b"".join(table.encode(1, 1))).queues == {
        ("t", number): 1 + number + (0 if number % 2 else 19) for number in range(100)
    }
    for number in range(100):
        table.forget("t", number)
    assert table.encode(1, 1)[1] == b""


def decoded(content: bytes) -> Progress:
    """What a file of these bytes says."""
    progress = decode_progress(content + zlib.crc32(content).to_bytes(4, "big"))
    assert progress is not None
    return progress


def test_a_job_writes_what_was_so_when_it_was_made(tmp_path: Path) -> None:
    """It may run later, in another thread: the next round does not change it."""
    checkpoints = Checkpoints(Files(), tmp_path)
    orders, bills = queue_of(tmp_path, "orders", 3), queue_of(tmp_path, "bills", 0)
    checkpoints.trust([orders, bills])
    checkpoints.put(bills, 2)
    job = checkpoints.job(100, 7)
    checkpoints.put(bills, 4)
    later = checkpoints.job(200, 8)
    job()
    assert read_progress(Files(), tmp_path) == Progress(100, 7, {("orders", 0): 3, ("bills", 0): 2})
    assert read_checkpoint(Files(), tmp_path).log_timestamp == 7
    later()
    assert read_progress(Files(), tmp_path) == Progress(200, 8, {("orders", 0): 3, ("bills", 0): 4})
    assert read_checkpoint(Files(), tmp_path).confirm_position == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == [PROGRESS, "checkpoint"]


def test_what_was_withdrawn_is_not_put_in_place(tmp_path: Path) -> None:
    """A job that was under way leaves nothing; one made afterwards counts."""
    checkpoints = Checkpoints(Files(), tmp_path)
    orders = queue_of(tmp_path, "orders", 3)
    checkpoints.trust([orders])
    checkpoints.job(100, 7)()
    job = checkpoints.job(150, 8)
    checkpoints.withdraw()
    checkpoints.forget([orders])
    job()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    checkpoints.job(200, 9)()
    assert read_progress(Files(), tmp_path) == Progress(200, 9)
