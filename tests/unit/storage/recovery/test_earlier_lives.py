"""A topic that is deleted and made again: nothing of its earlier life comes back, whatever ends."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from support.disks.logs import append, bodies, opened, send, settle, small, write_queues

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import BOOT_NOTE, DELETED, ENTRY_BYTES, PROGRESS, file_name
from aerobee.storage.verify import verify

FILE_ENTRIES = 10


def made_again(root: Path, *, old: int = 25, new: int = 3) -> Path:
    """Leave a store in which "bills" was deleted and has new messages; return its old files."""
    settings = small(root, queue_file_entries=FILE_ENTRIES)
    store = opened(settings)
    send(store, "orders")
    for number in range(old):
        for queue_id in (0, 1):
            send(store, "bills", queue_id, body=b"old %d" % number)
    write_queues(store)
    kept = root.with_name(f"{root.name}.kept")
    shutil.copytree(root / "consumequeue" / "bills", kept)
    assert store.delete_topic("bills")
    for number in range(new):
        send(store, "bills", body=b"new %d" % number)
    write_queues(store)
    store.abandon()
    for note in (BOOT_NOTE, PROGRESS):
        (root / note).unlink(missing_ok=True)
    return kept


def check(root: Path, new: int = 3) -> None:
    """Open a store twice: it has the new messages of "bills", and no others."""
    settings = small(root, queue_file_entries=FILE_ENTRIES)
    for _ in range(2):
        store = opened(settings)
        assert bodies(store, "bills") == [b"new %d" % number for number in range(new)]
        assert store.queue("bills", 0).max_offset == new
        assert store.find_queue("bills", 1) is None or bodies(store, "bills", 1) == []
        assert not store.damage
        store.close()
        assert not verify(settings).problems


def test_a_walk_from_the_logs_begin_leaves_old_messages_alone(tmp_path: Path) -> None:
    """Power loss took notes and queues: what comes from the log is the present life."""
    made_again(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    check(tmp_path)


def test_files_that_outlive_the_deletion_are_removed(tmp_path: Path) -> None:
    """The power went before the disk had forgotten their names: some old files are there again."""
    kept = made_again(tmp_path)
    for name in ("0/" + file_name(FILE_ENTRIES * ENTRY_BYTES), "1/" + file_name(0)):
        (tmp_path / "consumequeue" / "bills" / name).parent.mkdir(exist_ok=True)
        shutil.copy(kept / name, tmp_path / "consumequeue" / "bills" / name)
    check(tmp_path)


def test_an_old_file_in_the_place_of_the_new_one_is_not_believed(tmp_path: Path) -> None:
    """A name that leads to the earlier life's file again leads to nothing of the present one."""
    kept = made_again(tmp_path)
    shutil.copy(kept / "0" / file_name(0), tmp_path / "consumequeue" / "bills" / "0")
    check(tmp_path)


@pytest.mark.parametrize("aged", [True, False])
def test_a_file_without_an_entry_that_outlives_the_deletion_hides_no_message(
    tmp_path: Path, aged: bool
) -> None:
    """The power took what it held and brought its name back: the queue still begins at 0."""
    if aged:
        let_the_log_age(tmp_path)
    made_again(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue" / "bills")
    left = tmp_path / "consumequeue" / "bills" / "0" / file_name(FILE_ENTRIES * ENTRY_BYTES)
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(FILE_ENTRIES * ENTRY_BYTES))
    check(tmp_path)


def let_the_log_age(root: Path) -> None:
    """Make a store whose log has let its first file go."""
    store = opened(small(root, queue_file_entries=FILE_ENTRIES))
    while len(store.segments.items) < 2:
        send(store, "orders", body=bytes(3000))
        settle(store)
    store.segments.drop_first()
    store.queue("orders", 0).trim(store.segments.begin)
    settle(store)
    store.close()


def test_a_note_of_progress_that_outlives_the_deletion_is_not_believed(tmp_path: Path) -> None:
    """What it says of the topic was true of the earlier life."""
    settings = small(tmp_path, queue_file_entries=FILE_ENTRIES)
    store = opened(settings)
    for number in range(5):
        send(store, "bills", body=b"old %d" % number)
    settle(store)
    noted = (tmp_path / PROGRESS).read_bytes()
    assert store.delete_topic("bills")
    send(store, "bills", body=b"new 0")
    store.abandon()
    (tmp_path / BOOT_NOTE).unlink()
    (tmp_path / PROGRESS).write_bytes(noted)
    check(tmp_path, new=1)


def test_a_log_that_has_lost_its_end_gives_positions_anew(tmp_path: Path) -> None:
    """Messages that come to lie before the noted position are of the present life."""
    settings = small(tmp_path)
    store = opened(settings)
    first = send(store, "bills", body=b"old")
    lost = send(store, "bills", body=b"lost with the power" * 50)
    assert store.delete_topic("bills")
    store.abandon()
    (tmp_path / BOOT_NOTE).unlink()
    with (tmp_path / "commitlog" / file_name(0)).open("r+b") as file:
        file.seek(lost)
        file.write(bytes(2000))
    for name in (b"new 0", b"new 1"):
        store = opened(settings)
        assert send(store, "bills", body=name) > first
        settle(store)
        store.abandon()
        (tmp_path / BOOT_NOTE).unlink()
        (tmp_path / PROGRESS).unlink()
        shutil.rmtree(tmp_path / "consumequeue")
    check(tmp_path, new=2)


def test_the_note_goes_with_the_log(tmp_path: Path) -> None:
    """Each deletion leaves out of the note what the log no longer has."""
    settings = small(tmp_path)
    store = opened(settings)
    send(store, "bills", body=b"old")
    assert store.delete_topic("bills")
    while len(store.segments.items) < 3:
        send(store, "orders", body=bytes(3000))
        settle(store)
    store.close()
    (tmp_path / "commitlog" / file_name(0)).unlink()
    store = opened(settings)
    assert store.queues.deleted.before("bills") == 0
    store.close()
    assert b"bills" not in (tmp_path / DELETED).read_bytes()


def test_what_cannot_be_removed_is_gone_all_the_same(tmp_path: Path) -> None:
    """The note decides. Until the disk lets go of an old file the topic takes no message there."""
    files = Files()
    settings = small(tmp_path, queue_file_entries=FILE_ENTRIES)
    store = opened(settings, files)
    send(store, "orders")
    for number in range(12):
        send(store, "bills", body=b"old %d" % number)

    def refuses(path: Path) -> None:
        if path.parent.parent.name == "bills":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        Files.remove(files, path)

    files.remove = refuses  # type: ignore[method-assign]
    assert store.delete_topic("bills")
    assert store.find_queue("bills", 0) is None
    del files.remove
    append(store, "bills", body=b"new 0")
    store.commit_log.commit()
    settle(store)
    assert bodies(store, "bills") == [b"new 0"]
    store.abandon()
    check(tmp_path, new=1)
