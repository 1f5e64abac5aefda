"""RocketMQ stores written and read with nothing but `struct`: the yardstick for the readers.

It shares no code with the packages it checks. Formats: CommitLog, ConsumeQueue and
MessageDecoder of RocketMQ 5.5.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
QUEUE_FILE_ENTRIES = 300_000
BLANK_BYTES = 8


@dataclass(frozen=True)
class Stored:
    """One message as a producer and a broker leave it in the log."""

    topic: str = "orders"
    queue_id: int = 0
    body: bytes = b"hello"
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 1_700_000_000_000
    store_timestamp: int = 1_700_000_000_005
    born_host: tuple[str, int] = ("10.0.0.7", 40312)
    store_host: tuple[str, int] = ("10.0.0.1", 10911)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def properties(pairs: dict[str, str], *, closed: bool = True) -> bytes:
    r"""A property string; Java's client leaves out the last \x02, its broker does not."""
    raw = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
    return raw if closed else raw[:-1]


def pack_host(host: tuple[str, int]) -> bytes:
    """IP and port as a record holds them: 8 or 20 bytes."""
    return ipaddress.ip_address(host[0]).packed + struct.pack(">i", host[1])


def pack_record(message: Stored, queue_offset: int, position: int) -> bytes:
    """One whole record; V2 where the topic is longer than 127 bytes."""
    topic = message.topic.encode()
    born, store = pack_host(message.born_host), pack_host(message.store_host)
    sys_flag = message.sys_flag | (16 if len(born) == 20 else 0) | (32 if len(store) == 20 else 0)
    magic = MAGIC_V2 if len(topic) > 127 else MAGIC_V1
    tail = b"".join(
        [
            struct.pack(">i", len(message.body)),
            message.body,
            struct.pack(">h" if magic == MAGIC_V2 else ">B", len(topic)),
            topic,
            struct.pack(">h", len(message.properties)),
            message.properties,
        ]
    )
    head = struct.pack(
        ">IiiiqqIq",
        magic,
        zlib.crc32(message.body) & 0x7FFFFFFF,
        message.queue_id,
        message.flag,
        queue_offset,
        position,
        sys_flag & 0xFFFFFFFF,
        message.born_timestamp,
    )
    middle = struct.pack(">q", message.store_timestamp) + store
    middle += struct.pack(">iq", message.reconsume_times, message.prepared_transaction_offset)
    size = 4 + len(head) + len(born) + len(middle) + len(tail)
    return struct.pack(">i", size) + head + born + middle + tail


def tag_hash(raw: bytes) -> int:
    """Java's String.hashCode of the TAGS property, 0 without one."""
    tags = parse_properties(raw).get("TAGS")
    value = 0
    for unit in struct.iter_unpack("<H", (tags or "").encode("utf-16-le")):
        value = (value * 31 + unit[0]) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@dataclass
class StoreWriter:
    """Writes a store message by message; `close` puts everything on disk, and may be repeated."""

    root: Path
    segment_bytes: int = 1 << 20
    first_position: int = 0
    segments: dict[int, bytearray] = field(default_factory=dict)
    entries: dict[tuple[str, int], list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __post_init__(self) -> None:
        self.position = self.first_position

    def append(self, message: Stored, *, dispatched: bool = True) -> int:
        """Add one record, rolling the file when it is full; return its log position."""
        base = self.position - self.position % self.segment_bytes
        queue = self.entries[message.topic, message.queue_id]
        record = pack_record(message, len(queue), self.position)
        assert len(record) + BLANK_BYTES <= self.segment_bytes, "a record must fit into one file"
        left = base + self.segment_bytes - self.position
        if len(record) + BLANK_BYTES > left:
            self._segment(base).extend(struct.pack(">iI", left, MAGIC_BLANK))
            base = self.position = base + self.segment_bytes
            record = pack_record(message, len(queue), self.position)
        position = self.position
        self._segment(base).extend(record)
        self.position += len(record)
        if dispatched:
            queue.append((position, len(record), tag_hash(message.properties)))
        return position

    def close(self, *, queues: bool = True, spare_segments: int = 0) -> Path:
        """Write all files, the log's at full length; `spare_segments` are empty ones after it."""
        log_dir = self.root / "commitlog"
        log_dir.mkdir(parents=True, exist_ok=True)
        base = self.first_position
        for base, data in self.segments.items():
            _write_padded(log_dir / f"{base:020d}", data, self.segment_bytes)
        for spare in range(1, spare_segments + 1):
            path = log_dir / f"{base + spare * self.segment_bytes:020d}"
            _write_padded(path, b"", self.segment_bytes)
        if queues:
            for (topic, queue_id), entries in self.entries.items():
                self._write_queue(self.root / "consumequeue" / topic / str(queue_id), entries)
        return self.root

    def _segment(self, base: int) -> bytearray:
        return self.segments.setdefault(base, bytearray())

    def _write_queue(self, folder: Path, entries: list[tuple[int, int, int]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for first in range(0, max(len(entries), 1), QUEUE_FILE_ENTRIES):
            part = entries[first : first + QUEUE_FILE_ENTRIES]
            data = b"".join(struct.pack(">qiq", *entry) for entry in part)
            _write_padded(folder / f"{first * 20:020d}", data, QUEUE_FILE_ENTRIES * 20)


def _write_padded(path: Path, data: bytes | bytearray, size: int) -> None:
    """Write a file with zeros behind the data, which take no room."""
    with path.open("wb") as file:
        file.write(data)
        file.truncate(max(size, len(data)))


def read_log(root: Path) -> Iterator[dict[str, Any]]:
    """Every record of the store, read one by one, up to the first that is none."""
    for path in sorted((root / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic not in (MAGIC_V1, MAGIC_V2):
                break
            yield unpack_record(data[at : at + size])
            at += size
        if magic != MAGIC_BLANK:
            return


def unpack_record(record: bytes) -> dict[str, Any]:
    """One record as a dict with a key per column of the Spark source."""
    row: dict[str, Any] = {}
    row["record_bytes"], magic, row["body_crc"], row["queue_id"], row["flag"] = struct.unpack_from(
        ">iIiii", record
    )
    row["queue_offset"], row["commit_log_offset"], row["sys_flag"], row["born_timestamp"] = (
        struct.unpack_from(">qqiq", record, 20)
    )
    at = 48
    host_bytes = 20 if row["sys_flag"] & 16 else 8
    row["born_host"], at = _host(record[at : at + host_bytes]), at + host_bytes
    (row["store_timestamp"],) = struct.unpack_from(">q", record, at)
    at += 8
    host_bytes = 20 if row["sys_flag"] & 32 else 8
    row["store_host"], at = _host(record[at : at + host_bytes]), at + host_bytes
    row["reconsume_times"], row["prepared_transaction_offset"], row["body_bytes"] = (
        struct.unpack_from(">iqi", record, at)
    )
    at += 16
    row["body"], at = record[at : at + row["body_bytes"]], at + row["body_bytes"]
    width = 2 if magic == MAGIC_V2 else 1
    topic_bytes = int.from_bytes(record[at : at + width], "big")
    at += width
    row["topic"], at = record[at : at + topic_bytes].decode(), at + topic_bytes
    raw = record[at + 2 :]
    assert len(raw) == int.from_bytes(record[at : at + 2], "big")
    row["raw_properties"], row["properties"] = raw, parse_properties(raw)
    row["tags"], row["keys"] = row["properties"].get("TAGS"), row["properties"].get("KEYS")
    return row


def parse_properties(raw: bytes) -> dict[str, str]:
    """A property string by the rules of MessageDecoder.string2messageProperties."""
    found = {}
    for piece in raw.split(b"\x02"):
        name, mark, value = piece.partition(b"\x01")
        if name and mark and value:
            found[name.decode(errors="replace")] = value.decode(errors="replace")
    return found


def _host(packed: bytes) -> str:
    address = ipaddress.ip_address(packed[:-4])
    (port,) = struct.unpack(">i", packed[-4:])
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
