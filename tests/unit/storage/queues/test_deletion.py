"""Topics go without waiting for the disk, wholly or not at all, and do not come back."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, settle, small, write_queues

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreReadOnly
from aerobee.storage.proofs.progress import MAGIC, read_progress
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify


def rebuilt(root: Path) -> MessageStore:
    """The store that is made from the log alone."""
    shutil.rmtree(root / "consumequeue")
    for note in root.glob("aerobee.*"):
        note.unlink()
    return opened(small(root))


def test_a_deleted_topic_begins_anew(tmp_path: Path) -> None:
    """What comes after a crash knows its new messages alone; from the log alone all come back."""
    store = opened(small(tmp_path))
    for number in range(3):
        for topic in ("orders", "bills"):
            send(store, topic, number, body=b"old")
    assert store.delete_topic("bills")
    send(store, "bills", 2, body=b"new")
    settle(store)
    progress = read_progress(Files(), tmp_path)
    assert progress is not None
    assert progress.position == store.commit_log.position
    store.abandon()
    store = opened(small(tmp_path))
    assert store.recovered.records == 0, "the notes say that all is there"
    assert bodies(store, "bills", 2) == [b"new"]
    assert store.find_queue("bills", 0) is None
    store.close()
    assert not verify(small(tmp_path)).problems
    store = rebuilt(tmp_path)
    assert bodies(store, "bills", 2) == [b"new"]
    assert bodies(store, "bills", 0) == [b"old"]
    store.close()


def read_only_files() -> Files:
    """A file system on which the lock cannot be opened for writing."""
    files = Files()

    def refuses(path: Path | str, *, create: bool = False, write: bool = True) -> int:
        if write:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return Files.open(files, path, write=False)

    files.open = refuses  # type: ignore[method-assign]
    return files


def test_a_read_only_store_keeps_its_topics(tmp_path: Path) -> None:
    """A deletion is refused before anything has changed."""
    store = opened(small(tmp_path))
    send(store)
    store.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    store = opened(small(tmp_path), read_only_files())
    assert store.read_only
    for topic in ("orders", "nothing"):
        with pytest.raises(StoreReadOnly, match="reading only"):
            store.delete_topic(topic)
    assert bodies(store) == [b"hello"]
    store.close()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("kept", ["aerobee.progress", "aerobee.deleted.tmp"])
def test_a_deletion_that_the_disk_refuses_changes_nothing(tmp_path: Path, kept: str) -> None:
    """Our progress cannot be removed, or no deletion be noted: the topic is as it was."""
    files = Files()
    store = opened(small(tmp_path), files)
    send(store, queue_id=0)
    send(store, queue_id=1)
    settle(store)

    def refuses(path: Path) -> None:
        if path.name == kept:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        Files.remove(files, path)

    files.remove = refuses  # type: ignore[method-assign]
    with pytest.raises(OSError, match="not permitted"):
        store.delete_topic("orders")
    assert store.topics() == {"orders": [0, 1]}
    settle(store)
    assert read_progress(files, tmp_path) is not None, "what was withdrawn is noted again"
    send(store, body=b"more")
    settle(store)
    assert bodies(store) == [b"hello", b"more"]
    del files.remove
    assert store.delete_topic("orders")
    store.close()
    assert not verify(small(tmp_path)).problems


def test_what_remains_of_a_topic_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A later file that cannot be removed does not bring back what is gone."""
    files = Files()
    store = opened(small(tmp_path), files)
    for number in range(3):
        send(store, queue_id=number)
    write_queues(store)

    def refuses(path: Path) -> None:
        if path.parent.name == "1":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        Files.remove(files, path)

    files.remove = refuses  # type: ignore[method-assign]
    assert store.delete_topic("orders")
    assert store.topics() == {}
    assert "queue_not_removed" in caplog.text
    store.close()


def test_a_deletion_waits_for_no_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is; the round that was under way promises nothing of the topic."""
    monkeypatch.setattr("platform.system", lambda: "Darwin")  # a thread syncs, by the door below
    go_on = threading.Event()

    def slow(files: Files, fd: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert go_on.wait(20)
        os.fsync(fd)

    store = opened(small(tmp_path))
    monkeypatch.setattr(Files, "sync", slow)
    for number in range(3):
        send(store, "orders", number)
        send(store, "bills", number)
    store.tick()
    assert store.flusher.busy
    assert store.delete_topic("bills")
    assert not (tmp_path / "consumequeue" / "bills").exists()
    assert store.flusher.busy, "nothing has been synced yet"
    send(store, "bills", 0, body=b"new")
    go_on.set()
    settle(store)
    settle(store)
    progress = read_progress(Files(), tmp_path)
    assert progress is not None
    assert {key: offset for key, offset in progress.queues.items() if offset} == {
        ("orders", 0): 1, ("orders", 1): 1, ("orders", 2): 1, ("bills", 0): 1,
    }  # fmt: skip
    store.abandon()
    store = opened(small(tmp_path))
    assert bodies(store, "bills") == [b"new"]
    store.close()


def test_a_checkpoint_under_way_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written beside the loop; a topic that goes meanwhile is in no file afterwards."""
    go_on, begun = threading.Event(), threading.Event()
    write = Files.write

    def slow(files: Files, fd: int, data: bytes | memoryview, at: int) -> None:
        if bytes(data[:8]) == MAGIC and threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go_on.wait(20)
        write(files, fd, data, at)

    store = opened(small(tmp_path))
    send(store, "orders")
    send(store, "bills")
    monkeypatch.setattr(Files, "write", slow)
    store.tick()
    while not begun.is_set():
        store.poll(0.05)
    send(store, "orders", body=b"served meanwhile")
    assert store.delete_topic("bills")
    go_on.set()
    store.flusher.drain(5)
    assert read_progress(Files(), tmp_path) is None
    settle(store)
    progress = read_progress(Files(), tmp_path)
    assert progress is not None
    assert {key for key, offset in progress.queues.items() if offset} == {("orders", 0)}
    monkeypatch.setattr(Files, "write", write)
    store.close()
