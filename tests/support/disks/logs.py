"""Small message stores for tests: settings, sending, and a disk that forgets the unsynced."""

import os
import random
import struct
import time
from pathlib import Path
from typing import Any

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.record import Record, decode_record, host_bytes
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.disk.files import Files
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

NOW_MS = 1_700_000_000_000
SECTOR_BYTES = 512


def small(root: Path, **changes: Any) -> StoreSettings:
    """Settings of a store with tiny files and without a helper process."""
    values: dict[str, Any] = {
        "root": root,
        "segment_bytes": 16 * 1024,
        "queue_file_entries": 50,
        "window_bytes": 8 * 1024,
        "first_window_bytes": 8 * 1024,
        "helper_process": False,
        "disk_ratio_max": 1.0,
        "disk_ratio_force": 1.0,
        "disk_ratio_clean": 1.0,
        "delete_hours": (),
        "remove_interval_ms": 0,
    }
    return StoreSettings(**(values | changes))


def opened(settings: StoreSettings, files: Files | None = None) -> MessageStore:
    """A store that has been opened."""
    store = MessageStore(settings, files)
    store.open()
    return store


def hosts(
    now_ms: int = NOW_MS,
    born: tuple[str, int] = ("10.0.0.7", 4000),
    retries: int = 0,
    store: tuple[str, int] = ("10.0.0.1", 10911),
) -> bytes:
    """Pack what stands between born timestamp and body length."""
    middle = struct.pack(">q", now_ms) + host_bytes(*store)
    return host_bytes(*born) + middle + struct.pack(">iq", retries, 0)


def append(
    store: MessageStore,
    topic: str = "orders",
    queue_id: int = 0,
    body: bytes = b"hello",
    tags: str = "",
    now_ms: int = NOW_MS,
    properties: bytes | None = None,
) -> int:
    """Append one message without committing; return its position."""
    if properties is None:
        properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    queue = store.queue(topic, queue_id)
    code = java_string_hash(tags) if tags else 0
    return store.commit_log.append(queue, 0, 0, now_ms, hosts(now_ms), body, properties, code)


def send(store: MessageStore, topic: str = "orders", queue_id: int = 0, **more: Any) -> int:
    """Append one message and commit it; return its position."""
    position = append(store, topic, queue_id, **more)
    store.commit_log.commit()
    return position


def lost(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> set[int]:
    """The offsets of a queue that damaged spans have taken."""
    return {
        offset
        for span in store.damage
        for name, number, first, last in span.queues
        if (name, number) == (topic, queue_id)
        for offset in range(first, last + 1)
    }


def other_problems(settings: StoreSettings) -> list[str]:
    """What the verifier says but for the spans that no record can be read from."""
    return [problem for problem in verify(settings).problems if "are no records" not in problem]


def read_all(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[Record]:
    """Decode every message of a queue, from its first to its last, but for what is lost."""
    queue = store.find_queue(topic, queue_id)
    if queue is None:
        return []
    records = []
    gone = lost(store, topic, queue_id)
    for offset in range(queue.min_offset, queue.max_offset):
        if offset in gone:
            continue
        position, size, _ = queue.entry(offset)
        if size == BLANK_SIZE:
            continue
        data = store.record_at(position)
        assert data is not None and len(data) == size, f"{topic}-{queue_id} offset {offset}"
        record = decode_record(data)
        assert (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, offset)
        records.append(record)
    return records


def bodies(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """The bodies of a queue."""
    return [record.body for record in read_all(store, topic, queue_id)]


def settle(store: MessageStore, timeout_s: float = 10.0) -> None:
    """Tick and wait until the disk has everything and the checkpoints are written."""
    deadline = time.monotonic() + timeout_s
    store._queues_flushed_at = 0.0
    store.tick()
    while store.flusher.busy or store.commit_log.flushed_position < store.commit_log.committed:
        assert time.monotonic() < deadline, "the store did not settle"
        store.poll(0.05)
        store.tick()


def write_queues(store: MessageStore) -> None:
    """Have the files of the queues what they will have after the next round: nothing is synced."""
    for queue in store.queues:
        queue.write_out()


class ForgetfulFiles(Files):
    """Real files beside a picture of what the disk has; `crash` makes the picture true.

    A file's content reaches the disk by `sync`, its name by that or by `sync_directory`. What was
    never synced, a sector or a whole file, may have arrived or not, each for itself.
    """

    def __init__(self, boot: int = 1) -> None:
        self.boot = boot
        self.paths: dict[int, Path] = {}
        self.durable: dict[Path, bytes] = {}
        self.fail_sync = 0
        self.syncs = 0

    def boot_id(self) -> bytes:
        """Another one after each crash."""
        return f"{self.boot:036d}".encode()

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open and remember whose number it is."""
        path = Path(path)
        fd = super().open(path, create=create, write=write)
        self.paths[fd] = path
        return fd

    def sync(self, fd: int) -> None:
        """Keep the content, or fail as told."""
        if self.fail_sync:
            raise OSError(self.fail_sync, os.strerror(self.fail_sync))
        self.syncs += 1
        self.durable[self.paths[fd]] = self.paths[fd].read_bytes()

    def sync_directory(self, path: Path) -> None:
        """Keep the names, and the sizes, of files that have never been synced."""
        for entry in path.iterdir():
            if entry.is_file():
                self.durable.setdefault(entry, bytes(entry.stat().st_size))

    def replace(self, source: Path, target: Path) -> None:
        """Move; the old content stays on the disk if the new one was never synced."""
        super().replace(source, target)
        if source in self.durable:
            self.durable[target] = self.durable.pop(source)

    def remove(self, path: Path) -> None:
        """Remove at once."""
        super().remove(path)
        self.durable.pop(path, None)

    def crash(self, root: Path, chance: random.Random) -> "ForgetfulFiles":
        """Turn the machine off: return the door that the next boot has."""
        after = ForgetfulFiles(self.boot + 1)
        for path in [path for path in root.rglob("*") if path.is_file()]:
            kept = self.durable.get(path)
            if kept is None:
                if chance.random() < 0.5:
                    path.unlink()
                    continue
                kept = b""
            path.write_bytes(torn(kept, path.read_bytes(), chance))
            after.durable[path] = path.read_bytes()
        return after


def torn(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """Mix two states of a file: each sector is as old, or as new, as chance will have it."""
    result = bytearray(old.ljust(len(new), b"\0"))
    share = chance.random()
    for at in range(0, len(new), SECTOR_BYTES):
        sector = new[at : at + SECTOR_BYTES]
        if sector != result[at : at + len(sector)] and chance.random() < share:
            result[at : at + len(sector)] = sector
    return bytes(result)
