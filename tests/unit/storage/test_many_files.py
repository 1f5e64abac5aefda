"""Stores with many more files than a process may have open, or map, are served in full."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.maps import WITHOUT_NUMBERS, map_file
from aerobee.storage.disk.open_files import OpenFiles
from aerobee.storage.verify import verify

TESTS = Path(__file__).parents[2]

USE = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from support.disks.logs import append, bodies, opened, settle, small
QUEUES = 2000
root = Path(sys.argv[1])
settings = small(root, segment_bytes=8192, queue_flush_interval_ms=60_000)
store = opened(settings)
for life in range(2):
    for turn in range(2):
        for number in range(QUEUES):
            append(store, f"topic{number % 100}", number // 100, body=b"%d" % number + bytes(500))
            if number % 50 == 0:
                store.commit_log.commit()
                store.tick()
                store.poll()
        store.commit_log.commit()
        settle(store, 60)
        assert store.commit_log.flushed_position == store.commit_log.committed
    for number in range(QUEUES):
        queue = store.queue(f"topic{number % 100}", number // 100)
        found = store.read(queue, 0, 32, 1 << 20)
        assert found.count == 2 * (life + 1), (number, found.status)
    print(life, len(store.segments.items), store.statistics().refusal, flush=True)
    if life == 0:
        store.close()
        assert not (root / "abort").exists()
        store = opened(settings)
        assert store.recovered.proof == "flushed" or store.recovered.proof == "written"
store.abandon()
store = opened(settings)
assert store.recovered.position == store.commit_log.committed
for number in range(QUEUES):
    found = bodies(store, f"topic{number % 100}", number // 100)
    assert [body.rstrip(bytes(1)) for body in found] == [b"%d" % number] * 4
store.close()
assert not (root / "abort").exists()
"""


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder where thousands of syncs cost nothing, if the system has one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.skipif(not WITHOUT_NUMBERS, reason="maps hold file numbers here")
def test_a_limit_of_256_files_serves_2000_queues_and_more_log_files(in_memory: Path) -> None:
    """Each queue takes messages and is read in turn; syncs, checkpoints, stops and starts work."""
    command = [sys.executable, "-c", USE, str(in_memory), str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lives = [line.split() for line in done.stdout.splitlines()]
    assert [life[2] for life in lives] == ["None", "None"]
    assert int(lives[1][1]) > 256, "files of the log"


def test_a_store_that_may_map_few_files_lets_queues_take_turns(in_memory: Path) -> None:
    """vm.max_map_count is a limit of its own."""

    class FewMaps(Files):
        def maps_max(self) -> int:
            """So that queues have 70."""
            return 80

        kernel = Files.kernel

    files = FewMaps()
    store = opened(small(in_memory), files)
    for _ in range(3):
        for queue_id in range(300):
            send(store, queue_id=queue_id)
        settle(store)
        assert store.queues.maps <= 70
    store.close()
    store = opened(small(in_memory), files)
    for queue_id in range(300):
        assert bodies(store, queue_id=queue_id) == [b"hello"] * 3
        assert store.queues.maps <= 70
    store.close()
    assert not verify(small(in_memory)).problems


def test_a_log_file_that_finds_no_number_is_synced_later(tmp_path: Path) -> None:
    """Running out of numbers is no word of the disk's; whoever waits is answered afterwards."""

    class NoNumbers(Files):
        log_files_max = 1
        refused = 0

        kernel = Files.kernel

        def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
            """Refuse files of the log for a while."""
            path = Path(path)
            if self.refused and path.parent.name == "commitlog":
                raise OSError(self.refused, os.strerror(self.refused), str(path))
            return super().open(path, create=create, write=write)

    files = NoNumbers()
    store = opened(small(tmp_path), files)
    send(store)
    for segment in store.segments.items:
        segment.let_go()
    answers: list[bool] = []
    files.refused = errno.EMFILE
    store.flusher.request(store.commit_log.committed, answers.append)
    assert answers == [] and store.commit_log.refusal is None
    files.refused = 0
    settle(store)
    assert answers == [True]
    send(store)
    for segment in store.segments.items:
        segment.let_go()
    files.refused = errno.EIO
    store.flusher.request(store.commit_log.committed, answers.append)
    assert answers == [True, False] and store.commit_log.refusal is not None
    files.refused = 0
    store.close()


def test_a_map_holds_no_file_and_shows_what_is_written(tmp_path: Path) -> None:
    """Through the map, by write, in another map; it outlives its number, not the file's end."""
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    with path.open("r+b") as file:
        written = map_file(file.fileno(), 10_000, write=True)
        seen = map_file(file.fileno(), 10_000, write=False)
        with pytest.raises(ValueError):
            map_file(file.fileno(), 20_000, write=False)
    written[5_000:5_003] = b"abc"
    assert seen[5_000:5_003] == path.read_bytes()[5_000:5_003] == b"abc"
    with pytest.raises(TypeError):
        seen[0:1] = b"x"
    view = memoryview(seen)[5_000:5_003]
    del seen
    assert bytes(view) == b"abc"
    pipe_or_closed = 1_000_000
    with pytest.raises(OSError):
        map_file(pipe_or_closed, 10, write=False)


def test_elsewhere_maps_hold_file_numbers_and_connections_get_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python's own maps are all there is, queues take turns before numbers run out."""
    monkeypatch.setattr("aerobee.storage.disk.maps.WITHOUT_NUMBERS", False)
    monkeypatch.setattr("aerobee.storage.disk.files.WITHOUT_NUMBERS", False)
    files = Files()
    files.limit(256, 32)
    assert (files.queue_maps_max, files.log_files_max) == (224, 32)
    files.limit(1 << 20, 1024)
    assert files.queue_maps_max == files.maps_max() * 7 // 8
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with path.open("r+b") as file:
        seen = map_file(file.fileno(), 3, write=False)
    assert seen[:] == b"abc"


def test_log_files_give_up_numbers_where_there_are_none(tmp_path: Path) -> None:
    """Connections may have taken them; but not one that a sync uses."""
    opened_now, fail = list[str](), [True]

    class File:
        def __init__(self, name: str, held: int = 0) -> None:
            self.name, self.held = name, held

        def let_go(self) -> None:
            """Note it."""
            open_files.forget(self)
            opened_now.remove(self.name)

    def opens(name: str) -> int:
        if fail[0] and len(opened_now) >= 3:
            raise OSError(errno.EMFILE, "too many open files")
        opened_now.append(name)
        return 7

    open_files = OpenFiles(lambda: 100)
    for file in (File("held", 1), File("a"), File("b")):
        open_files.open(file, partial(opens, file.name))
    assert open_files.open(File("c"), partial(opens, "c")) == 7
    assert opened_now == ["held", "c"]
    held = File("d", 1)
    open_files.open(held, partial(opens, "d"))
    next(file for file in open_files._open if isinstance(file, File) and file.name == "c").held = 1
    with pytest.raises(OSError, match="too many"):
        open_files.open(File("e"), partial(opens, "e"))
