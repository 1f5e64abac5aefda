"""What is old enough leaves memory, once, and nothing that anybody may want or memory alone has."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, small

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.residency import unmap_pages
from aerobee.storage.disk.worker import Job
from aerobee.storage.log import space_helper
from aerobee.storage.log.segment import Segment
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

FILE = 1 << 18


class Orders:
    """Takes the place of the helper, and may be busy."""

    def __init__(self, store: MessageStore) -> None:
        self.taken: list[tuple[int, int]] = []
        self.busy = False
        store.allocator.drop_cache = self  # type: ignore[method-assign]

    def __call__(self, segment: Segment, at: int, until: int) -> bool:
        """Note what is to go, as positions."""
        if not self.busy:
            self.taken.append((segment.base + at, segment.base + until))
        return not self.busy


def filled(root: Path, log_cache_bytes: int = FILE) -> MessageStore:
    """Return a store with five files and a bit, of which nothing is known to be synced yet."""
    store = opened(
        small(root, segment_bytes=FILE, window_bytes=FILE, first_window_bytes=FILE,
              log_cache_bytes=log_cache_bytes, flush_interval_ms=10)
    )  # fmt: skip
    store.log_cache.tick()
    while store.commit_log.position < 5.5 * FILE:
        send(store, body=bytes(10_000))
    return store


def test_whole_stretches_go_behind_the_end(tmp_path: Path) -> None:
    """Each file once, one a tick, as far as it is on the disk."""
    store = filled(tmp_path)
    orders = Orders(store)
    for _ in range(3):
        store.log_cache.tick()
    assert not orders.taken, "memory alone has it"
    assert store.flusher.flush_all(10)
    orders.busy = True
    for _ in range(3):
        store.log_cache.tick()
    orders.busy = False
    for _ in range(10):
        store.log_cache.tick()
    assert orders.taken == [(n * FILE, (n + 1) * FILE) for n in range(4)]
    store.close()


@pytest.mark.parametrize(("wanted", "count"), [(0, 0), (FILE - 1, 0), (2 * FILE, 2), (9 * FILE, 4)])
def test_what_is_wanted_stays(tmp_path: Path, wanted: int, count: int) -> None:
    """Readers keep what lies before them."""
    store = filled(tmp_path)
    orders = Orders(store)
    store.log_cache.wanted_from = lambda: wanted
    assert store.flusher.flush_all(10)
    for _ in range(10):
        store.log_cache.tick()
    assert len(orders.taken) == count
    store.log_cache.wanted_from = lambda: 9 * FILE
    for _ in range(10):
        store.log_cache.tick()
    assert len(orders.taken) == 4
    store.close()


def test_nothing_goes_before_it_has_left_our_map(tmp_path: Path) -> None:
    """The kernel keeps what is mapped, and is asked once; the thread may be at something else."""
    store = filled(tmp_path)
    assert all(segment.view[:1] for segment in store.segments.items), "they are mapped"
    orders = Orders(store)
    jobs: list[Job] = []
    store.log_cache._run = jobs.append
    assert store.flusher.flush_all(10)
    for done in range(4):
        for _ in range(3):
            store.log_cache.tick()
        assert (len(orders.taken), len(jobs)) == (done, done + 1)
        jobs[-1]()
    store.log_cache.tick()
    assert len(orders.taken) == 4
    store.close()


def test_it_can_be_turned_off_and_ends_with_a_failure(tmp_path: Path) -> None:
    """0 keeps everything, and so does a log whose disk has failed."""
    store = filled(tmp_path / "off", log_cache_bytes=0)
    failing = filled(tmp_path / "failing")
    for each in (store, failing):
        orders = Orders(each)
        assert each.flusher.flush_all(10)
        failing.commit_log.refuse("a sync of the log failed")
        for _ in range(10):
            each.log_cache.tick()
        assert not orders.taken
        each.close()


def test_files_that_are_removed_are_passed_over(tmp_path: Path) -> None:
    """Retention may be faster than we are."""
    store = filled(tmp_path)
    orders = Orders(store)
    assert store.flusher.flush_all(10)
    store.segments.drop_first()
    for _ in range(10):
        store.log_cache.tick()
    assert orders.taken == [(n * FILE, (n + 1) * FILE) for n in range(1, 4)]
    store.close()


def test_messages_are_read_from_the_disk_afterwards(tmp_path: Path) -> None:
    """With the real helper, and a map through which everything was read before."""
    settings = small(
        tmp_path, segment_bytes=FILE, window_bytes=FILE, first_window_bytes=FILE,
        log_cache_bytes=FILE, helper_process=True,
    )  # fmt: skip
    store = opened(settings)
    store.log_cache.tick()
    sent, deadline, dropped = 0, time.monotonic() + 60, 0
    drop_cache = store.allocator.drop_cache

    def counted(segment: Segment, at: int, until: int) -> bool:
        nonlocal dropped
        done = drop_cache(segment, at, until)
        dropped += done
        return done

    store.allocator.drop_cache = counted  # type: ignore[method-assign]
    while dropped < 4:
        assert time.monotonic() < deadline
        if store.commit_log.position < 6 * FILE:
            try:
                send(store, body=b"%04d" % sent + bytes(10_000))
                sent += 1
            except Exception:  # noqa: BLE001 - space is being prepared
                store.poll(0.01)
        assert len(bodies(store)) == sent
        store.tick()
        store.poll(0.01)
    assert [int(body[:4]) for body in bodies(store)] == list(range(sent))
    pid = store.allocator.helper_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while not store.allocator.drop_cache(store.segments.items[0], 0, FILE):
        assert time.monotonic() < deadline, "a new helper has nothing to do yet"
        store.tick()
    store.close()
    assert not verify(settings).problems


def test_the_helper_drops_when_it_has_nothing_else_to_do(tmp_path: Path) -> None:
    """One answer for each, also for a file that is gone."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", space_helper.__file__, str(os.getpid())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert helper.stdin is not None
    assert helper.stdout is not None
    name = os.fsencode(path)
    helper.stdin.write(b"drop 0 3000000 %s\nallocate 3000000 4000000 %s\n" % (name, name))
    helper.stdin.flush()
    assert helper.stdout.readline() == b"ok 4000000 " + name + b"\n"
    assert helper.stdout.readline() == b"dropped 3000000 " + name + b"\n"
    helper.stdin.write(b"drop 0 10 /nonexistent/file\n")
    helper.stdin.flush()
    assert helper.stdout.readline() == b"dropped 10 /nonexistent/file\n"
    helper.stdin.close()
    assert helper.wait(10) == 0
    assert path.read_bytes()[:3_000_000] == b"x" * 3_000_000


def test_systems_that_cannot_be_asked_to_forget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the helper has nothing to do, and lives."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    monkeypatch.delattr(os, "posix_fadvise")
    assert space_helper.drop(os.fsencode(path), 0, 10_000) == 10_000


def test_pages_taken_out_of_a_map_are_found_again(tmp_path: Path) -> None:
    """Whatever was written through it."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    fd = Files().open(path)
    memory = Files().map(fd, 10_000, write=True)
    memory[5_000:5_003] = b"yes"
    unmap_pages(memory, 0, 10_000)
    unmap_pages(memory, 4096, 1 << 20)
    unmap_pages(memory, 1, 10)
    assert memory[4_999:5_004] == b"xyesx"
    Files().close(fd)
