"""Reads of what is not in memory find what they would have found: any place, limit and filter."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.disks.logs import append, opened, settle, small
from support.examples import examples

from aerobee.broker.compiled.choice import is_compiled
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.disk.residency import PAGE_BYTES, Buffer, everything_is, resident_bytes
from aerobee.storage.reads.cold.fetching import fetch
from aerobee.storage.reads.cold.request import ColdRead
from aerobee.storage.reads.reading import Gather
from aerobee.storage.reads.results import Accept, ReadStatus
from aerobee.storage.store import MessageStore

TAGS: Final = ("", "A", "B")
WANTED: Final = (None, frozenset({java_string_hash("A")}), frozenset({7}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    """A store of many small files, of the log and of three queues; the oldest are gone."""
    root = tmp_path_factory.mktemp("cold")
    store = opened(small(root, queue_file_entries=700, filter_scan_bytes=4000))
    rng = random.Random(12)
    for _ in range(1500):
        append(store, queue_id=rng.choice((0, 0, 1, 2)), body=bytes(rng.choice((1, 90, 5000))),
               tags=rng.choice(TAGS))  # fmt: skip
        store.commit_log.commit()
        store.poll()
    settle(store)
    for _ in range(3):
        store.segments.drop_first()
    yield store
    store.close()


def gathers() -> list[Gather | None]:
    """Return the ways to copy records that there are."""
    if not is_compiled():
        return [None]
    from aerobee.broker.compiled.record_runs import gather

    return [None, gather]


def walk(store: MessageStore, queue_id: int, start: int, **wish: Any) -> tuple[bytes, int, int]:
    """Read a queue to its end as a client does; return the records, how many, and the fetches."""
    queue = store.find_queue("orders", queue_id)
    assert queue is not None
    offset, count, fetches = start, 0, 0
    records: list[bytes] = []
    while True:
        try:
            result = store.read(queue, offset, **wish)
        except ColdRead as cold:
            fetches += 1
            fetched = fetch(store.files, cold.request)
            result = store.read(queue, offset, **wish, fetched=fetched)
        if result.status is ReadStatus.OFFSET_OVERFLOW_ONE:
            return b"".join(records), count, fetches
        assert result.next_offset > offset, "a client that goes on there gets on"
        offset = result.next_offset
        records += [bytes(part) for part in result.parts]
        count += result.count


def wants(modulus: int) -> Accept:
    """Return a filter that looks into the record."""
    return lambda record: sum(record[-40:]) % modulus == 0


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(
    queue_id=st.integers(0, 2),
    start=st.integers(0, 300),
    messages_max=st.sampled_from([1, 32, 800]),
    bytes_max=st.sampled_from([100, 5000, 1 << 20]),
    wanted=st.sampled_from(WANTED),
    modulus=st.sampled_from([0, 0, 2]),
    seed=st.integers(0, 2**32),
)
def test_cold_and_warm_reads_bring_the_same(
    store: MessageStore,
    queue_id: int,
    start: int,
    messages_max: int,
    bytes_max: int,
    wanted: frozenset[int] | None,
    modulus: int,
    seed: int,
) -> None:
    """Whichever bytes are in memory at whichever moment: the same records, in the same order."""
    rng = random.Random(seed)
    share = rng.choice((0.0, 0.3, 0.9))

    def sometimes(memory: Buffer, at: int, count: int) -> int:
        return count if rng.random() < share else rng.randrange(count)

    wish: dict[str, Any] = {"messages_max": messages_max, "bytes_max": bytes_max, "wanted": wanted}
    if modulus:
        wish |= {"accept": wants(modulus), "wanted": None}
    store.reader.use(everything_is)
    records, count, fetches = walk(store, queue_id, start, **wish)
    assert fetches == 0
    for gather in gathers():
        store.reader.use(sometimes)
        cold = walk(store, queue_id, start, **wish, gather=gather)
        assert cold[:2] == (records, count)


@pytest.mark.parametrize("name", ["commitlog", "consumequeue"])
def test_files_that_go_while_they_are_read_are_told_as_gone(tmp_path: Path, name: str) -> None:
    """Retention, or a deletion, between the wish and the reading: no error, and no endless loop."""
    store = opened(small(tmp_path))
    for _ in range(400):
        append(store, body=bytes(100))
        store.commit_log.commit()
        store.poll()
    settle(store)
    store.reader.use(lambda memory, at, count: 0)
    queue = store.find_queue("orders", 0)
    assert queue is not None
    with pytest.raises(ColdRead) as cold:
        store.read(queue, 0, 32, 1 << 20)
    if name == "commitlog":
        store.segments.drop_first()
    else:
        for span in queue.spans()[:1]:
            span.path.unlink()
    fetched = fetch(store.files, cold.value.request)
    if name == "commitlog":
        result = store.read(queue, 0, 32, 1 << 20, fetched=fetched)
        assert result.status is ReadStatus.MESSAGE_WAS_REMOVING and result.next_offset > 0
    else:  # a queue that still counts on its file: nobody has removed it
        with pytest.raises(FileNotFoundError):
            store.read(queue, 0, 32, 1 << 20, fetched=fetched)
    store.abandon()


def test_what_the_kernel_has_dropped_is_not_touched(tmp_path: Path) -> None:
    """Pages of a file that left the cache are told by both ways of asking, to the byte."""
    import mmap

    path = tmp_path / "file"
    pages = 64
    path.write_bytes(os.urandom(pages * PAGE_BYTES))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # nothing read ahead
        os.pread(file.fileno(), 3 * PAGE_BYTES, 8 * PAGE_BYTES)
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    asked = [(0, 10), (8 * PAGE_BYTES, 3 * PAGE_BYTES), (8 * PAGE_BYTES + 5, 4 * PAGE_BYTES),
             (10 * PAGE_BYTES, 9000), (63 * PAGE_BYTES, PAGE_BYTES)]  # fmt: skip
    expected = [0, 3 * PAGE_BYTES, 3 * PAGE_BYTES - 5, PAGE_BYTES, 0]
    found = [resident_bytes(memory, at, count) for at, count in asked]
    if found[0]:
        pytest.skip("this file system keeps its files in memory")
    assert found == expected
    if is_compiled():
        from aerobee.broker.compiled.record_runs import resident

        assert [resident(memory, at, count) for at, count in asked] == expected
