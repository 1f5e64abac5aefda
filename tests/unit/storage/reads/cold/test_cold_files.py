"""Cold reads of files that were harmed: damage stays hidden, what is lost is an error."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import append, opened, send, settle, small

from aerobee.broker.compiled.choice import is_compiled
from aerobee.storage.disk.residency import Copied, copied_bytes, everything_is
from aerobee.storage.reads.cold import fetching
from aerobee.storage.reads.cold.fetching import Fetched, fetch
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.reads.cold.request import ColdRead
from aerobee.storage.reads.reading import Gather
from aerobee.storage.reads.results import ReadResult
from aerobee.storage.store import MessageStore

COUNT = 60


def filled(root: Path, body: bytes = bytes(100)) -> list[int]:
    """Write a store of one queue and return where its messages are."""
    store = opened(small(root, segment_bytes=64 * 1024))
    places = [send(store, body=body) for _ in range(COUNT)]
    settle(store)
    store.close()
    return places


def cold_store(root: Path) -> MessageStore:
    """Open a store of which nothing is in memory."""
    store = opened(small(root, segment_bytes=64 * 1024))
    store.reader.use(lambda memory, at, count: 0)
    store.commit_log.flushed_position = store.commit_log.committed
    for queue in store.queues:
        queue.flushed_offset = queue.max_offset
    return store


def fetched_for(store: MessageStore, offset: int = 0, count: int = 32) -> Fetched:
    """Fetch what a read from there on needs."""
    queue = store.find_queue("orders", 0)
    with pytest.raises(ColdRead) as cold:
        store.read(queue, offset, count, 1 << 20)
    return fetch(store.files, cold.value.request)


def read(store: MessageStore, fetched: Fetched, gather: Gather | None = None) -> ReadResult:
    """Read from what was fetched."""
    queue = store.find_queue("orders", 0)
    return store.read(queue, fetched.request.offset, 32, 1 << 20, gather=gather, fetched=fetched)


def gathers() -> list[Gather | None]:
    """Return the ways to copy records that there are."""
    if not is_compiled():
        return [None]
    from aerobee.broker.compiled.record_runs import gather

    return [None, gather]


@pytest.mark.parametrize("gather", gathers())
def test_a_damaged_record_is_given_to_nobody(tmp_path: Path, gather: Gather | None) -> None:
    """A flipped bit costs its message where the read comes from the disk, too; not the others."""
    places = filled(tmp_path)
    (file,) = (tmp_path / "commitlog").iterdir()
    with file.open("r+b") as log:
        log.seek(places[5] + 120)
        log.write(b"\xff")
    for note in ("aerobee.progress", "aerobee.written"):
        (tmp_path / note).unlink(missing_ok=True)
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    store = cold_store(tmp_path)
    assert [span.begin for span in store.damage] == [places[5]]
    result = read(store, fetched_for(store, count=8), gather)
    data = b"".join(result.parts)
    assert (result.count, result.next_offset) == (7, 8)
    assert b"\xff" not in data
    log_place = store.commit_log.snapshot()
    looked = FileLookup(store.files, log_place, store.queues.root, 50)
    assert looked.read(places[5], 100) == b"" and len(looked.read(places[4], 100)) == 100
    store.close()


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/orders/0"])
def test_a_file_that_lost_its_end_is_an_error(tmp_path: Path, name: str) -> None:
    """Its messages are not told as removed: a reader would go on behind them, and miss them."""
    filled(tmp_path)
    store = cold_store(tmp_path)
    file = min((tmp_path / name).iterdir())
    os.truncate(file, 300)
    with pytest.raises(OSError, match=r"lost its end: nothing from byte 300 .*" + file.name):
        fetched_for(store)
    store.abandon()


def test_an_older_queue_file_that_lost_its_end_is_named(tmp_path: Path) -> None:
    """Also where it is opened for the first time: no words about the broker's own memory."""
    filled(tmp_path)
    store = cold_store(tmp_path)
    file = min((tmp_path / "consumequeue/orders/0").iterdir())
    os.truncate(file, 300)
    store.reader.use(everything_is)
    queue = store.find_queue("orders", 0)
    assert queue is not None
    queue.let_go()
    assert store.read(queue, 0, 8, 1 << 20).count == 8
    with pytest.raises(OSError, match=r"lost its end: nothing from byte 300 .*" + file.name):
        store.read(queue, 20, 8, 1 << 20)
    store.abandon()


def test_a_lost_file_of_the_log_is_an_error(tmp_path: Path) -> None:
    """It was removed by hand, not by retention."""
    filled(tmp_path)
    store = cold_store(tmp_path)
    (file,) = (tmp_path / "commitlog").iterdir()
    file.unlink()
    with pytest.raises(FileNotFoundError, match="files of the store are lost"):
        read(store, fetched_for(store))
    store.abandon()


def in_a_child(work: Callable[[], bool]) -> int:
    """Do something that may end a process; return its exit status, negative for a signal."""
    child = os.fork()
    if not child:
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/orders/0"])
def test_a_page_that_goes_between_the_question_and_the_copy_ends_no_broker(
    tmp_path: Path, name: str
) -> None:
    """Memory that was there is there no more, and the disk does not give it: read elsewhere."""
    filled(tmp_path)
    store = opened(small(tmp_path, segment_bytes=64 * 1024))
    store.reader.use(everything_is)
    queue = store.find_queue("orders", 0)
    assert queue is not None and store.read(queue, 0, 1, 100).count == 1
    queue.flushed_offset = COUNT
    for file in (tmp_path / name).iterdir():
        os.truncate(file, 0)

    def cold() -> bool:
        try:
            store.read(queue, 0, 8, 1 << 20)
        except ColdRead:
            return True
        return False

    assert in_a_child(cold) == 0
    store.abandon()


def copies() -> list[Copied]:
    """Return the ways to copy that there are."""
    if not is_compiled():
        return [copied_bytes]
    from aerobee.broker.compiled.record_runs import copied

    return [copied_bytes, copied]


@pytest.mark.parametrize("copied", copies())
def test_memory_that_the_disk_does_not_give_is_no_copy(tmp_path: Path, copied: Copied) -> None:
    """What is there is copied to the byte; None where a page of it is not to be had."""
    import mmap

    path, data = tmp_path / "file", os.urandom(3 * mmap.PAGESIZE)
    path.write_bytes(data)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert copied(memory, 5, 2 * mmap.PAGESIZE) == data[5 : 5 + 2 * mmap.PAGESIZE]
    assert copied(memoryview(memory), 0, 0) == b""
    os.truncate(path, mmap.PAGESIZE)
    assert in_a_child(lambda: copied(memory, 10, mmap.PAGESIZE) is None) == 0
    assert copied(memory, 10, 100) == data[10:110]
    with pytest.raises(ValueError, match="outside"):
        copied(memory, 2 * mmap.PAGESIZE, 2 * mmap.PAGESIZE)


def test_memory_is_copied_from_this_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever somebody has put in the place of os.getpid."""
    monkeypatch.setattr(os, "getpid", os.getppid)
    assert copied_bytes(b"a message", 2, 7) == b"message"


@pytest.mark.parametrize("apart", [0, 40_000])
def test_the_disk_reads_ahead_where_readers_will_come_by(
    tmp_path: Path, apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once per fetch, and not for records that lie far apart: a megabyte for each would be read."""
    store = opened(small(tmp_path, segment_bytes=4 << 20, queue_file_entries=1000))
    for _ in range(40):
        append(store, body=bytes(500))
        if apart:
            append(store, "others", body=bytes(apart))
        store.commit_log.commit()
        store.poll()
    settle(store)
    store.reader.use(lambda memory, at, count: 0)
    asked: list[int] = []
    monkeypatch.setattr(fetching, "read_ahead", lambda fd, at: asked.append(at))
    fetched = fetched_for(store)
    assert read(store, fetched).count == 32
    assert len(asked) == (0 if apart else 1)
    store.close()


def test_what_lies_between_records_is_bounded(tmp_path: Path) -> None:
    """Small gaps are read with their neighbours, but not more of them than was wished for."""
    store = opened(small(tmp_path, segment_bytes=4 << 20, queue_file_entries=1000))
    for _ in range(200):
        append(store, body=bytes(10))
        append(store, "others", body=bytes(8000))
        store.commit_log.commit()
        store.poll()
    settle(store)
    store.reader.use(lambda memory, at, count: 0)
    queue = store.find_queue("orders", 0)
    with pytest.raises(ColdRead) as cold:
        store.read(queue, 0, 200, 20_000, accept=lambda record: True)
    wish = cold.value.request
    fetched = fetch(store.files, wish)
    result = store.read(queue, 0, 200, 20_000, accept=lambda record: True, fetched=fetched)
    assert result.count > 30
    kept = sum(len(piece) for piece in fetched._pieces.values())
    assert kept <= wish.memory_bytes
    store.close()


def test_a_long_record_is_warm_only_as_a_whole(tmp_path: Path) -> None:
    """Who looks at it reads all of it: the rest would be waited for on the loop."""
    store = opened(small(tmp_path, segment_bytes=1 << 20))
    place = send(store, body=bytes(300_000))
    short = send(store, body=bytes(30))
    settle(store)
    store.reader.use(lambda memory, at, count: min(count, 64 * 1024))
    store.commit_log.flushed_position = store.commit_log.committed
    assert not store.reader.is_warm(place)
    assert store.reader.is_warm(short)
    store.reader.use(everything_is)
    assert store.reader.is_warm(place)
    store.close()
