"""What there is of each queue, and what a read takes of it."""

from __future__ import annotations

import os
import shutil
import struct
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.disks.stores import Stored, StoreWriter

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import (
    StoreState,
    queue_bounds,
    queue_dir,
)
from aerobee.spark.at_rest.stores import find_stores
from aerobee.spark.feeds.followed_log import LogTail
from aerobee.spark.feeds.followed_queues import QueueWatch
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.topics import ALL_TOPICS, TopicChoice

A = BrokerQueue("s", "orders", 0)


def write_queue(folder: Path, entries: list[tuple[int, int, int]], per_file: int) -> None:
    """A queue's files of `per_file` entries, the last one filled up with zeros."""
    folder.mkdir(parents=True)
    for first in range(0, len(entries), per_file):
        data = b"".join(struct.pack(">qiq", *each) for each in entries[first : first + per_file])
        (folder / f"{first * 20:020d}").write_bytes(data.ljust(per_file * 20, b"\0"))


def state_of(root: Path) -> StoreState:
    """The one store at `root`, as a reader sees it."""
    return StoreState.look(find_stores(str(root))[0])


def test_bounds_end_with_the_log(tmp_path: Path) -> None:
    """Entries of records that are not there, before the log's first file or behind its end."""
    writer = StoreWriter(tmp_path / "s", 4096)
    for number in range(60):
        writer.append(Stored(queue_id=number % 2, body=b"x" * 300))
    queue = writer.entries["orders", 0]
    queue.append((writer.position, 397, 0))  # the record is not written yet
    root = writer.close()
    assert queue_bounds(state_of(root))[A] == QueueRange(A, 0, 30)
    (root / "commitlog" / f"{0:020d}").unlink()  # retention
    gone = sum(position < 4096 for position, _, _ in queue)
    assert queue_bounds(state_of(root))[A] == QueueRange(A, gone, 30)


def test_space_that_a_stop_removes_meanwhile_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stops takes the file ahead with it, between a look at the names and at it."""
    writer = StoreWriter(tmp_path / "s", 4096)
    for _ in range(5):
        writer.append(Stored(body=b"x" * 300))
    root, end = writer.close(), writer.position
    ahead = root / "commitlog" / f"{4096:020d}"
    store = find_stores(str(root))[0]

    def removed_and_opened(path: str) -> int:
        ahead.unlink(missing_ok=True)
        return os.open(path, os.O_RDONLY)

    monkeypatch.setattr(disk, "open_file", removed_and_opened)
    for look in (partial(StoreState.look, store), LogTail(store).look):
        ahead.write_bytes(bytes(4096))
        state = look()
        assert [segment.base for segment in state.segments] == [0] and state.end == end


def test_topics_and_queues_are_chosen(tmp_path: Path) -> None:
    """Light queues never, they would count others' messages once more."""
    writer = StoreWriter(tmp_path / "s", 4096)
    for topic in ("orders", "%RETRY%g", "rmq_sys_x", "%LMQ%l"):
        for queue_id in range(2):
            writer.append(Stored(topic=topic, queue_id=queue_id))
    state = state_of(writer.close())

    def topics(choice: TopicChoice) -> list[tuple[str, int]]:
        return [(key.topic, key.queue_id) for key in queue_bounds(state, choice)]

    assert {topic for topic, _ in topics(TopicChoice())} == {"orders", "%RETRY%g", "rmq_sys_x"}
    assert topics(TopicChoice(system=False, retry=False)) == [("orders", 0), ("orders", 1)]
    assert topics(TopicChoice(pattern="rmq.*", system=False)) == []
    assert topics(TopicChoice(pattern="order")) == []
    assert topics(TopicChoice(pattern="o.*s")) == [("orders", 0), ("orders", 1)]
    assert topics(TopicChoice(queues=frozenset({A._replace(queue_id=1)}))) == [("orders", 1)]


@settings(max_examples=150, deadline=None)
@given(
    gaps=st.lists(st.integers(100, 5000), max_size=300),
    padding=st.integers(0, 70),
    per_file=st.integers(1, 90),
    low=st.integers(0, 500_000),
    high=st.integers(0, 500_000),
    gone=st.integers(0, 3),
)
def test_bounds_are_what_a_search_through_all_entries_finds(
    tmp_path_factory: pytest.TempPathFactory,
    gaps: list[int],
    padding: int,
    per_file: int,
    low: int,
    high: int,
    gone: int,
) -> None:
    """Padding before the first, zeros behind the last entry, first files deleted."""
    folder = tmp_path_factory.mktemp("queue") / "0"
    positions = [sum(gaps[:at]) for at in range(len(gaps))]
    entries = [(0, 0x7FFFFFFF, 0)] * padding + [(each, 100, 7) for each in positions]
    write_queue(folder, entries, per_file)
    for path in sorted(folder.iterdir())[:gone]:
        path.unlink()
    left = [
        (at, entry[0])
        for at, entry in enumerate(entries)
        if entry[1] == 100 and at >= gone * per_file
    ]
    low, high = min(low, high), max(low, high)
    expected = [at for at, position in left if low <= position < high]
    with ConsumeQueueFiles(str(folder)) as queue:
        start, end = queue.bounds(low, high)
        assert list(range(start, end)) == expected
        assert queue.read(start, end)["position"].tolist() == [
            position for _, position in left if low <= position < high
        ]


def test_queue_folder_is_found_by_its_key(tmp_path: Path) -> None:
    """Tasks open it by themselves."""
    writer = StoreWriter(tmp_path / "s", 4096)
    writer.append(Stored())
    store = find_stores(str(writer.close()))[0]
    assert Path(queue_dir(store, A)).is_dir()


def test_folders_that_no_broker_makes_are_passed_over(tmp_path: Path) -> None:
    """Numbers that are written otherwise, or too large, and topics that are no UTF-8."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for queue_id in (0, 2**31 - 1):
        writer.append(Stored(queue_id=queue_id))
    root = writer.close()
    queues = root / "consumequeue" / "orders"
    for name in ("00", str(2**31), "x", "\u0663"):
        shutil.copytree(queues / "0", queues / name)
    strange = os.fsdecode(os.fsencode(root) + b"/consumequeue/b\xff")
    shutil.copytree(queues / "0", f"{strange}/0")
    found = queue_bounds(state_of(root))
    assert [(key.topic, key.queue_id) for key in found] == [("orders", 0), ("orders", 2**31 - 1)]
    watched = QueueWatch(ALL_TOPICS).look(state_of(root))
    assert sorted(watched) == sorted(found)
