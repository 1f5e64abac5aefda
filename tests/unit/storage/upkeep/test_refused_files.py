"""Files of queues that cannot be made or written: what waits in memory, and who is refused."""

import errno
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, settle, small
from support.disks.refused_queues import RefusedQueues

from aerobee.storage.errors import AppendRefused, LogFull, LogUnavailable
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.store import MessageStore
from aerobee.storage.upkeep.wall_time import WallTime
from aerobee.storage.verify import verify

NO_ROOM = [errno.ENOSPC, errno.EDQUOT, errno.EROFS]


def round_over_queues(store: MessageStore) -> None:
    """Begin one, and wait for its end."""
    store.flusher.flush_queues()
    assert store.flusher.drain(5)


def refused(store: MessageStore, topic: str = "orders") -> AppendRefused:
    """Have a message refused."""
    before = store.commit_log.position
    with pytest.raises(AppendRefused) as caught:
        send(store, topic)
    assert store.commit_log.position == before
    return caught.value


@pytest.mark.parametrize("number", NO_ROOM)
def test_a_disk_without_room_refuses_all_until_a_round_has_met_room(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What was acknowledged is read, nothing is noted, and the next round has it all."""
    files = RefusedQueues()
    store = opened(small(tmp_path), files)
    send(store, body=b"0")
    settle(store)
    proven = read_progress(files, tmp_path)
    files.number = number
    send(store, body=b"1")
    send(store, "bills")
    assert files.refused == 0, "memory has them"
    for _ in range(3):
        round_over_queues(store)
        for topic in ("orders", "bills", "news"):
            error = refused(store, topic)
            assert isinstance(error, LogUnavailable if number == errno.EROFS else LogFull)
            assert error.path == tmp_path / "consumequeue/orders/0" / f"{0:020}"
            assert f"consumequeue/orders/0/{0:020}" in str(error) and error.need_bytes > 0
            assert error.queue is store.queue("orders", 0)
        assert read_progress(files, tmp_path) == proven
        assert bodies(store) == [b"0", b"1"] and len(bodies(store, "bills")) == 1
    assert [type(each) for each in store.flusher.refusals(9)] == [type(error)]
    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 1, "however often it is tried"
    files.number = 0
    round_over_queues(store)
    send(store, body=b"2")
    send(store, "news")
    assert not store.flusher.refusals(9)
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None
    assert progress.queues == {("orders", 0): 3, ("bills", 0): 1, ("news", 0): 1}
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_look_at_a_full_disk_costs_one_file(tmp_path: Path) -> None:
    """At each tick, however many queues wait; what the first round has written stays written."""
    files = RefusedQueues()
    store = opened(small(tmp_path), files)
    for queue_id in range(20):
        send(store, queue_id=queue_id)
    files.number, files.where = errno.ENOSPC, "orders/7/"
    store.tick()
    assert store.flusher.drain(5)
    assert files.refused == 1 and store.flusher.lacks_room
    assert store.queue("orders", 3).written == 1 and store.queue("orders", 9).written == 0
    files.where = ""
    for count in range(2, 6):
        store.tick()
        assert store.flusher.drain(5)
        assert files.refused == count
    files.number = 0
    store.tick()
    assert store.flusher.drain(5)
    assert not store.flusher.lacks_room
    store.close()
    assert not (tmp_path / "abort").exists()
    assert not verify(small(tmp_path)).problems


def test_room_for_one_queue_is_none_for_all(tmp_path: Path) -> None:
    """The refusal ends with the round that has written all."""
    files = RefusedQueues()
    store = opened(small(tmp_path), files)
    for queue_id in range(3):
        send(store, queue_id=queue_id)
    files.number = errno.ENOSPC
    round_over_queues(store)
    files.where = "orders/2/"
    round_over_queues(store)
    error = refused(store)
    assert error.queue is store.queue("orders", 2)
    assert store.queue("orders", 1).written == 1
    store.abandon()


@pytest.mark.parametrize("how", ["a directory in its place", "EIO"])
def test_a_file_that_is_refused_for_its_own_reason_costs_its_queue_alone(
    tmp_path: Path, how: str
) -> None:
    """Its messages are refused from the first round on, until a round can write them."""
    files = RefusedQueues()
    store = opened(small(tmp_path), files)
    obstacle = tmp_path / "consumequeue/orders/0" / f"{0:020}"
    if how == "EIO":
        files.number, files.where = errno.EIO, "orders/0/"
    else:
        obstacle.mkdir(parents=True)
    proven = read_progress(files, tmp_path)
    send(store, body=b"kept")
    send(store, "bills")
    round_over_queues(store)
    for _ in range(3):
        assert isinstance(error := refused(store), LogUnavailable)
        assert error.path == obstacle and str(obstacle)[-39:] in str(error)
        send(store, "bills")
        round_over_queues(store)
    assert bodies(store) == [b"kept"] and store.queue("bills", 0).written == 4
    assert read_progress(files, tmp_path) == proven
    files.number = 0
    if how != "EIO":
        obstacle.rmdir()
    round_over_queues(store)
    send(store)
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.queues == {("orders", 0): 2, ("bills", 0): 4}
    store.close()
    assert not verify(small(tmp_path)).problems


@pytest.mark.parametrize("end", [MessageStore.close, MessageStore.abandon])
@pytest.mark.parametrize("count", [5, 130])
def test_a_start_without_room_has_the_entries_from_the_log(
    tmp_path: Path, count: int, end: Callable[[MessageStore], None]
) -> None:
    """It serves them, of several files, refuses messages, and goes on as soon as there is room."""
    wide = {"segment_bytes": 1 << 20, "window_bytes": 1 << 18, "first_window_bytes": 1 << 18}
    settings, files = small(tmp_path, queue_file_entries=50, **wide), RefusedQueues()
    store = opened(settings, files)
    for number in range(count):
        send(store, body=b"%d" % number)
    files.number = errno.ENOSPC
    end(store)
    assert (tmp_path / "abort").exists()
    if count > 50:  # nothing of the queue is in its files, as before their first round
        shutil.rmtree(tmp_path / "consumequeue/orders")
        (tmp_path / "aerobee.progress").unlink(missing_ok=True)
    for _ in range(2):
        store = opened(settings, files)
        assert not store.read_only
        expected = [b"%d" % number for number in range(count)]
        assert bodies(store) == expected
        store.tick()
        assert store.flusher.drain(5)
        assert isinstance(refused(store), LogFull)
        assert bodies(store) == expected
        end(store)
        assert (tmp_path / "abort").exists()
    store = opened(settings, files)
    store.tick()
    assert store.flusher.drain(5)
    refused(store)
    files.number = 0
    store.tick()
    assert store.flusher.drain(5)
    send(store, body=b"%d" % count)
    assert bodies(store) == [*expected, b"%d" % count]
    store.close()
    assert not (tmp_path / "abort").exists()
    assert not verify(settings).problems


def test_a_full_disk_keeps_the_log_that_entries_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes before its time is older; what is too old goes."""
    files = RefusedQueues()
    store = opened(small(tmp_path, disk_ratio_force=0.5), files)
    monkeypatch.setattr(files, "disk_used_ratio", lambda _: 1.0)

    def fill() -> None:
        for _ in range(60):
            store.poll()
            send(store, body=bytes(1000))
        store.flusher.flush_log()
        assert store.flusher.drain(5)

    fill()
    settle(store)
    position = store.commit_log.position
    fill_until = len(store.segments.items)
    for _ in range(40):
        store.poll()
        send(store, "bills", body=bytes(1000))
    files.number = errno.ENOSPC
    round_over_queues(store)
    store.flusher.flush_log()
    assert store.flusher.drain(5)
    assert len(store.segments.items) > fill_until
    store.retention.disk.check()
    for _ in range(3):
        store.retention.clean(store.flusher.needed_from)
    assert store.segments.begin <= position < store.segments.items[0].end
    store.retention.time = WallTime(lambda: time.time() + 1e9)
    store.retention.clean(store.flusher.needed_from)
    assert store.segments.begin > position, "what is expired goes all the same"
    store.abandon()


def test_a_deleted_topic_wants_no_room(tmp_path: Path) -> None:
    """The others are taken again."""
    files = RefusedQueues()
    store = opened(small(tmp_path), files)
    send(store)
    files.number, files.where = errno.ENOSPC, "orders/"
    round_over_queues(store)
    refused(store, "bills")
    assert store.delete_topic("orders")
    round_over_queues(store)
    send(store, "bills")
    assert not store.flusher.refusals(9)
    store.close()
    assert not (tmp_path / "abort").exists()
