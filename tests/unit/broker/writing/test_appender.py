"""A request's messages are stored all or none, also when their queue's file cannot grow."""

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.disks.logs import bodies, hosts, opened, small

from aerobee.broker.writing.appender import Appender, Message
from aerobee.broker.writing.queues import AckStyle, TopicQueue
from aerobee.broker.writing.tick import Tick
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogFull, LogUnavailable
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

STYLE = AckStyle("DefaultRegion", True, "0A000001" + "00002A9F")


class NearlyFull(Files):
    """A disk that gives queues no more space while it is told to."""

    number = 0
    refuses_open = False

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Refuse in the middle: a part is written."""
        if self.number and not self.refuses_open and of_a_queue(fd):
            super().write(fd, data[: len(data) // 2], at)
            raise OSError(self.number, "no more space")
        super().write(fd, data, at)

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Refuse new files of queues."""
        if self.number and self.refuses_open and create:
            raise OSError(self.number, "no more files")
        return super().open(path, create=create, write=write)


def of_a_queue(fd: int) -> bool:
    """Whether a queue's file is open under that number."""
    return "consumequeue" in str(Path(f"/proc/self/fd/{fd}").readlink())


@contextmanager
def appender(root: Path, files: Files) -> Iterator[tuple[MessageStore, Appender, TopicQueue]]:
    """An appender over a store whose queue files have 100 entries."""
    room = {"window_bytes": 1 << 19, "first_window_bytes": 1 << 19}
    store = opened(small(root, queue_file_entries=100, segment_bytes=1 << 20, **room), files)
    loop = asyncio.new_event_loop()
    try:
        queue = TopicQueue("orders", 0, store.queue("orders", 0), STYLE)
        yield store, Appender(store, Tick(loop, store)), queue
    finally:
        loop.close()
        store.close()


def batch(count: int, text: bytes) -> list[Message]:
    """So many messages."""
    return [(0, text, b"", 0)] * count


@pytest.mark.parametrize(
    ("number", "refuses_open"),
    [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EMFILE, True), (errno.EIO, False)],
)
def test_a_batch_is_stored_whole_or_not_at_all(
    tmp_path: Path, number: int, refuses_open: bool
) -> None:
    """Its queue runs into the next file in the middle of it, which cannot be had; later it can."""
    files = NearlyFull()
    with appender(tmp_path, files) as (store, messages, queue):
        assert len(messages.append(queue, 0, 0, hosts(), batch(90, b"before"))) == 90
        position, arrived = store.commit_log.position, queue.arrived_bytes
        files.number, files.refuses_open = number, refuses_open
        expected = LogFull if number == errno.ENOSPC else LogUnavailable
        for _ in range(2):
            with pytest.raises(expected):
                messages.append(queue, 0, 0, hosts(), batch(32, b"refused"))
            assert queue.stored.max_offset == 90
            assert (store.commit_log.position, queue.arrived_bytes) == (position, arrived)
        messages.append(queue, 0, 0, hosts(), batch(10, b"small"))
        store.commit_log.commit()
        assert bodies(store) == [b"before"] * 90 + [b"small"] * 10
        files.number = 0
        messages.append(queue, 0, 0, hosts(), batch(232, b"after"))  # over three files
        store.commit_log.commit()
        assert bodies(store)[100:] == [b"after"] * 232
    assert not verify(store.settings).problems


def test_messages_of_the_same_turn_stay_when_a_batch_is_taken_back(tmp_path: Path) -> None:
    """Also when the batch had come into a further file; a kill afterwards finds the same."""
    files = NearlyFull()
    with appender(tmp_path, files) as (store, messages, queue):
        messages.append(queue, 0, 0, hosts(), batch(90, b"before"))
        real = files.write
        calls = iter(range(10))

        def second_fails(fd: int, data: bytes | memoryview, at: int) -> None:
            if of_a_queue(fd) and next(calls) == 1:
                raise OSError(errno.ENOSPC, "no more space")
            real(fd, data, at)

        files.write = second_fails  # type: ignore[method-assign]
        with pytest.raises(LogFull):
            messages.append(queue, 0, 0, hosts(), batch(200, b"refused"))  # 90, 100, 10
        del files.write
        messages.append(queue, 0, 0, hosts(), batch(5, b"after"))
        store.commit_log.commit()
        assert bodies(store) == [b"before"] * 90 + [b"after"] * 5
        store.abandon()
    with appender(tmp_path, files) as (store, _, _):
        assert bodies(store) == [b"before"] * 90 + [b"after"] * 5
    assert not verify(store.settings).problems


def test_a_batch_that_cannot_be_taken_back_ends_writing(tmp_path: Path) -> None:
    """Entries of messages that are not in the log must never come to point at others."""
    files = NearlyFull()
    with appender(tmp_path, files) as (store, messages, queue):
        messages.append(queue, 0, 0, hosts(), batch(90, b"before"))
        store.commit_log.commit()
        real = files.write
        calls = iter(range(100))

        def fails(fd: int, data: bytes | memoryview, at: int) -> None:
            if of_a_queue(fd) and next(calls) > 0:
                raise OSError(errno.EIO, "broken")
            real(fd, data, at)

        files.write = fails  # type: ignore[method-assign]
        with pytest.raises(LogUnavailable):
            messages.append(queue, 0, 0, hosts(), batch(200, b"refused"))
        assert queue.stored.max_offset == 90 and store.commit_log.refusal is not None
        del files.write
    assert (tmp_path / "abort").exists()
    with appender(tmp_path, files) as (store, _, _):
        assert bodies(store) == [b"before"] * 90
    assert not verify(store.settings).problems
