"""Old log files go by age and hour, or when the disk fills; queues follow."""

import errno
import os
import time
from pathlib import Path

import msgspec
import pytest
from support.disks.logs import ForgetfulFiles, bodies, opened, send, settle, small

from aerobee.storage.store import MessageStore
from aerobee.storage.upkeep.disk_space import DiskUse
from aerobee.storage.upkeep.wall_time import WallTime
from aerobee.storage.verify import verify

NOW = 1_800_000_000.0


def filled(path: Path, **changes: object) -> MessageStore:
    """A store of 5 log files, all on the disk, last written 100 hours ago."""
    store = opened(small(path, retention_hours=72, **changes))
    for number in range(60):
        send(store, queue_id=number % 2, body=b"%d:" % number + bytes(1000))
        store.poll()
    settle(store)
    for span in (path / "commitlog").iterdir():
        os.utime(span, (NOW - 360_000, NOW - 360_000))
    store.retention.time = WallTime(lambda: NOW)
    return store


def test_nothing_is_removed_in_the_first_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start on a full disk lets groups fetch what will go, and people make room."""
    filled(tmp_path).close()
    files = ForgetfulFiles()
    monkeypatch.setattr(files, "disk_used_ratio", lambda _: 1.0)
    store = opened(small(tmp_path, disk_ratio_force=0.5), files)
    store.tick()
    assert store.retention.removed_files == 0
    start_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start_s + 60)
    store.tick()
    assert store.retention.removed_files > 0
    store.abandon()


def test_a_file_that_cannot_be_removed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in the log until it is gone, and nothing else suffers."""
    store = filled(tmp_path, delete_hours=(hour(),))
    before = len(store.segments.items)

    def refuses(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(store.files, "remove", refuses)
        assert store.retention.clean() == 0
    assert len(store.segments.items) == before
    assert store.retention.clean() == 4
    store.close()


def test_a_file_that_was_removed_by_hand_holds_up_no_other(tmp_path: Path) -> None:
    """It is as old as the next one; until that may go its messages are served."""
    store = filled(tmp_path, delete_hours=(hour(),))
    names = sorted((tmp_path / "commitlog").iterdir())
    os.utime(names[1], (NOW - 3600, NOW - 3600))
    names[0].unlink()
    assert store.retention.clean() == 0
    assert len(bodies(store)) == 30
    os.utime(names[1], (NOW - 360_000, NOW - 360_000))
    assert store.retention.clean() == 4
    while store.retention.shortening.go_on():
        pass
    left = bodies(store)
    assert 0 < len(left) < 30
    store.close()
    store = opened(store.settings)
    assert bodies(store) == left
    store.close()
    assert not verify(store.settings).problems


def full(ratio: float) -> DiskUse:
    """Disks that are so full."""
    return DiskUse(ratio, ratio, Path("commitlog"))


def hour() -> int:
    """The local hour of NOW."""
    return time.localtime(NOW).tm_hour


def test_expired_files_go_at_their_hour(tmp_path: Path) -> None:
    """All but the one that is written, and what was prepared behind it."""
    store = filled(tmp_path, delete_hours=(hour(),))
    before = len(store.segments.items)
    assert store.retention.clean() == 4
    while store.retention.shortening.go_on():
        pass
    assert len(store.segments.items) == before - 4
    assert store.commit_log.begin == 4 * 16384
    queue = store.queue("orders", 0)
    assert 0 < queue.min_offset < queue.max_offset == 30
    assert all(body.endswith(bytes(1000)) for body in bodies(store))
    assert store.read(queue, 0, 32, 1 << 20).next_offset == queue.min_offset
    send(store, body=b"on it goes")
    store.close()
    settings = small(tmp_path)
    assert not verify(settings).problems
    store = opened(settings)
    assert store.queue("orders", 0).min_offset == queue.min_offset
    assert bodies(store)[-1] == b"on it goes"
    store.close()


def test_nothing_goes_at_other_hours_or_before_its_time(tmp_path: Path) -> None:
    """Neither hour nor age alone is enough."""
    store = filled(tmp_path, delete_hours=((hour() + 1) % 24,))
    assert store.retention.clean() == 0
    store.close()
    store = filled(tmp_path / "young", delete_hours=(hour(),))
    store.retention.time = WallTime(lambda: NOW - 200_000)
    assert store.retention.clean() == 0
    store.close()


@pytest.mark.parametrize(
    ("ratio", "age_s", "gone"), [(0.8, 0, 4), (0.8, 200_000, 0), (0.9, 360_000, 4)]
)
def test_a_filling_disk_speeds_it_up(tmp_path: Path, ratio: float, age_s: float, gone: int) -> None:
    """Above one mark expired files go at any hour, above the next one any old file goes."""
    store = filled(tmp_path, disk_ratio_clean=0.75, disk_ratio_force=0.85)
    store.retention.time = WallTime(lambda: NOW - age_s)
    store.retention.disk.use = full(ratio)
    assert store.retention.clean() == gone
    assert store.retention.removed_files == gone
    store.close()


def test_what_the_disk_does_not_have_stays(tmp_path: Path) -> None:
    """An unsynced file is not removed, however full the disk."""
    store = opened(small(tmp_path, disk_ratio_force=0.5), ForgetfulFiles())
    for number in range(60):
        send(store, body=b"%d:" % number + bytes(1000))
    store.retention.disk.use = full(0.99)
    assert store.retention.clean() == 0
    settle(store)
    store.retention.disk.use = full(0.99)
    assert store.retention.clean() > 0
    store.close()


def test_many_queues_are_shortened_in_many_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may wait for the disk; meanwhile readers of what is gone are told, and go on."""
    monkeypatch.setattr("aerobee.storage.upkeep.shortening.SLICE_S", 0.0)
    store = opened(small(tmp_path, retention_hours=72, delete_hours=(hour(),)))
    for number in range(60):
        send(store, queue_id=number % 10, body=bytes(1000))
        store.poll()
    settle(store)
    for span in (tmp_path / "commitlog").iterdir():
        os.utime(span, (NOW - 360_000, NOW - 360_000))
    store.retention.time = WallTime(lambda: NOW)
    assert store.retention.clean() == 4
    assert sum(queue.min_offset > 0 for queue in store.queues) == 1
    later = store.queue("orders", 9)
    assert later.min_offset == 0
    result = store.read(later, 0, 32, 1 << 20)
    assert result.next_offset > 0 and result.count > 0, "what is left of it"
    store.delete_topic("nothing")
    for _ in range(9):
        store.tick()
    assert all(queue.min_offset > 0 for queue in store.queues)
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_queue_whose_file_was_cut_ends_no_broker(tmp_path: Path) -> None:
    """Its entries stay as they are, it is told, and the other queues are shortened."""
    store = filled(tmp_path, delete_hours=(hour(),))
    store.queue("orders", 0).close()  # else memory has some of them
    store.queue("orders", 0).entry(0)
    (file,) = (tmp_path / "consumequeue" / "orders" / "0").iterdir()
    os.truncate(file, 0)
    child = os.fork()
    if not child:
        gone = store.retention.clean()
        while store.retention.shortening.go_on():
            pass
        shortened = [queue.min_offset > 0 for queue in store.queues]
        os._exit(0 if (gone, shortened) == (4, [False, True]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.abandon()


def test_a_disk_that_may_not_be_forced_keeps_what_is_young(tmp_path: Path) -> None:
    """cleanFileForciblyEnable=false: expired files go at any hour, others never."""
    store = filled(tmp_path, disk_ratio_clean=0.75, disk_ratio_force=0.85, cleans_forcibly=False)
    store.retention.time = WallTime(lambda: NOW - 200_000)
    store.retention.disk.use = full(0.99)
    assert store.retention.clean() == 0
    store.retention.time = WallTime(lambda: NOW)
    assert store.retention.clean() == 4
    store.close()


@pytest.mark.parametrize(("bytes_max", "gone"), [(0, 0), (1 << 20, 0), (40_000, 2), (1, 4)])
def test_a_log_has_a_largest_size(tmp_path: Path, bytes_max: int, gone: int) -> None:
    """The oldest files go until no more is there, whatever their age; never the one in use."""
    store = filled(tmp_path, log_bytes_max=bytes_max)
    store.retention.time = WallTime(lambda: NOW - 360_000)
    assert store.retention.clean() == gone
    kept = store.commit_log.position - store.commit_log.begin
    assert not bytes_max or kept <= max(bytes_max, 16384)
    store.close()
    assert not verify(small(tmp_path)).problems


def test_what_entries_are_made_from_outlives_a_size(tmp_path: Path) -> None:
    """A queue that could not be written has its entries in memory alone."""
    store = filled(tmp_path, log_bytes_max=1)
    store.retention.time = WallTime(lambda: NOW - 360_000)
    assert store.retention.clean(needed_from=20_000) == 1
    store.close()


def test_files_go_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """deleteCommitLogFilesInterval lies between two, deleteFileBatchMax is what one look takes."""
    store = filled(tmp_path, delete_hours=(hour(),), remove_interval_ms=100, clean_files_max=3)
    now_s = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    store.retention.time = WallTime(lambda: NOW)
    assert store.retention.clean() == 1
    assert store.retention.go_on() == 0
    for removed in (2, 3, 3):
        now_s += 0.1
        store.retention.go_on()
        assert store.retention.removed_files == removed
    assert store.retention.clean() == 1
    monkeypatch.undo()
    store.close()


def test_expired_files_go_at_any_hour_when_that_is_asked_for(tmp_path: Path) -> None:
    """The next twenty looks remove them; then the hour counts again."""
    store = filled(tmp_path, delete_hours=((hour() + 1) % 24,), clean_files_max=1)
    store.retention.remove_expired_soon()
    assert [store.retention.clean() for _ in range(5)] == [1, 1, 1, 1, 0]
    for _ in range(15):
        store.retention.clean()
    for number in range(60):
        send(store, queue_id=number % 2, body=bytes(1000))
        store.poll()
    settle(store)
    for span in (tmp_path / "commitlog").iterdir():
        os.utime(span, (NOW - 360_000, NOW - 360_000))
    assert store.retention.clean() == 0
    store.close()


def test_a_file_of_the_future_is_as_old_as_the_next(tmp_path: Path) -> None:
    """Written while the clock was wrong, it would keep all behind it for ever."""
    store = filled(tmp_path, delete_hours=(hour(),))
    files = [segment.path for segment in store.segments.items]
    for path in files[:2]:
        os.utime(path, (NOW + 1e9, NOW + 1e9))
    os.utime(files[2], (NOW - 100, NOW - 100))
    assert store.retention.clean() == 0, "the first one after it is young"
    os.utime(files[2], (NOW - 360_000, NOW - 360_000))
    assert store.retention.clean() == 4
    store.close()


def test_a_clock_that_steps_makes_nothing_old_for_an_hour(tmp_path: Path) -> None:
    """Set ahead by mistake it would remove the whole log; set right again all is as before."""
    store = filled(tmp_path, delete_hours=tuple(range(24)))
    for span in (tmp_path / "commitlog").iterdir():
        os.utime(span, (NOW, NOW))
    wall_s, steady_s = NOW, 1000.0
    store.retention.time = WallTime(lambda: wall_s, lambda: steady_s)
    assert store.retention.clean() == 0
    wall_s += 1e9
    assert store.retention.clean() == 0
    steady_s, wall_s = steady_s + 3599, wall_s + 3599
    assert store.retention.clean() == 0
    steady_s, wall_s = steady_s + 1, wall_s + 1
    assert store.retention.clean() == 4, "nobody has set it right: it is the time"
    store.close()


def test_a_clock_that_is_set_right_counts_at_once(tmp_path: Path) -> None:
    """A step back makes nothing older, and ends the hour of a step forward."""
    store = filled(tmp_path, delete_hours=tuple(range(24)))
    wall_s, steady_s = NOW - 300_000, 1000.0
    store.retention.time = WallTime(lambda: wall_s, lambda: steady_s)
    assert store.retention.clean() == 0
    wall_s += 1e9
    assert store.retention.clean() == 0
    wall_s -= 1e9
    assert store.retention.clean() == 0
    steady_s, wall_s = steady_s + 300_000, wall_s + 300_000
    assert store.retention.clean() == 4
    store.close()


def test_an_interval_that_was_changed_counts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from the next look on, which may be a day away."""
    store = filled(tmp_path, delete_hours=(hour(),), clean_interval_ms=86_400_000)
    now_s, looks = time.monotonic() + 60, list[int | None]()
    assert store.retention.tick(now_s, None) > 0
    store.retention.apply(msgspec.structs.replace(store.settings, clean_interval_ms=1000))

    def clean(needed_from: int | None = None) -> int:
        looks.append(needed_from)
        return 0

    monkeypatch.setattr(store.retention, "clean", clean)
    for later_s, count in ((0.5, 0), (1.0, 1), (1.5, 1), (2.0, 2)):
        store.retention.tick(now_s + later_s, None)
        assert len(looks) == count
    store.abandon()
