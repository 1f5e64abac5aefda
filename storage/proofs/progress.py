"""Our own checkpoint: a position of the log up to which everything is flushed and dispatched.

With it recovery starts inside a file. It is optional: a missing, damaged or contradicted one is
ignored, and RocketMQ ignores it always. Behind the head stand, for each queue, the topic's length
i16, the topic, id and offset; at the end the CRC-32 of all before.
"""

import struct
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from aerobee.remoting.message.layout import Layout
from aerobee.storage.disk.files import Files
from aerobee.storage.layout import PROGRESS

MAGIC: Final = b"AEROPRG1"
PROGRESS_BYTES_MAX: Final = 256 << 20
QUEUES_PER_PAGE: Final = 1024  # which are packed anew in a piece: a millisecond
PLACE_BITS: Final = 32
PLACE_MASK: Final = (1 << PLACE_BITS) - 1

_HEAD: Final = Layout(magic="8s", position="q", timestamp="q", queues="i").run()
_QUEUE_FIELDS: Final = Layout(queue_id="i", max_offset="q")
_QUEUE: Final = _QUEUE_FIELDS.run()
_QUEUE_ID: Final = _QUEUE_FIELDS.run(last="queue_id")
_OFFSET: Final = _QUEUE_FIELDS.run("max_offset")
_LENGTH: Final = struct.Struct(">h")
_CRC: Final = struct.Struct(">I")


class Progress(msgspec.Struct, frozen=True):
    """The records before `position` are on the disk, and so are their queue entries."""

    position: int
    timestamp: int
    queues: Mapping[tuple[str, int], int] = msgspec.field(default_factory=dict)  # to max offset


class _Page(msgspec.Struct):
    """Some queues of the table, one behind the other as they are in the file."""

    data: bytearray
    queues: int = 0
    gone: int = 0  # of them


class ProgressTable:
    """The queues of a progress file as its bytes, so that a change costs a number and not them all.

    Queues without messages are left out. One that is deleted stays for a while with offset 0,
    which promises nothing, until half of its page is gone: what is left there is packed anew.
    """

    def __init__(self) -> None:
        self._pages: list[_Page] = []
        self._roomy: list[int] = []  # pages with room for more
        self._places: dict[tuple[str, int], int] = {}  # of the offset: its page, and where in it
        self._gone: set[tuple[str, int]] = set()

    def put(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Set the offset of one queue."""
        key = (topic, queue_id)
        place = self._places.get(key)
        if place is not None:
            page = self._pages[place >> PLACE_BITS]
            _OFFSET.pack_into(page.data, place & PLACE_MASK, max_offset)
            if key in self._gone:
                self._gone.remove(key)
                page.gone -= 1
        elif max_offset > 0:
            self._add(key, max_offset)

    def forget(self, topic: str, queue_id: int) -> None:
        """Promise nothing more of a queue."""
        key = (topic, queue_id)
        place = self._places.get(key)
        if place is None:
            return
        self.put(topic, queue_id, 0)
        self._gone.add(key)
        page = self._pages[place >> PLACE_BITS]
        page.gone += 1
        if 2 * page.gone >= page.queues:
            self._compact(place >> PLACE_BITS)

    def encode(self, position: int, timestamp: int) -> tuple[bytes, bytes]:
        """Return all but the checksum, in two pieces, as of now."""
        head = _HEAD.pack(MAGIC, position, timestamp, len(self._places))
        return head, b"".join([page.data for page in self._pages])

    def _add(self, key: tuple[str, int], max_offset: int) -> None:
        if not self._roomy:
            self._roomy.append(len(self._pages))
            self._pages.append(_Page(bytearray()))
        number = self._roomy[-1]
        page = self._pages[number]
        page.data += encode_entry(*key, max_offset)
        self._places[key] = number << PLACE_BITS | (len(page.data) - _OFFSET.size)
        page.queues += 1
        if page.queues == QUEUES_PER_PAGE:
            self._roomy.pop()

    def _compact(self, number: int) -> None:
        """Leave out what is gone of a page; by then that is so much that each queue pays once."""
        page = self._pages[number]
        before, at = page.data, 0
        if page.queues == QUEUES_PER_PAGE:
            self._roomy.append(number)
        page.data, page.queues, page.gone = bytearray(), 0, 0
        while at < len(before):
            name_at = at + _LENGTH.size
            name_end = name_at + _LENGTH.unpack_from(before, at)[0]
            key = before[name_at:name_end].decode(), _QUEUE_ID.unpack_from(before, name_end)[0]
            end = name_end + _QUEUE.size
            if key in self._gone:
                self._gone.remove(key)
                del self._places[key]
            else:
                page.data += before[at:end]
                self._places[key] = number << PLACE_BITS | (len(page.data) - _OFFSET.size)
                page.queues += 1
            at = end


def encode_progress(progress: Progress) -> bytes:
    """Pack it with its checksum."""
    entries = [
        encode_entry(topic, queue_id, max_offset)
        for (topic, queue_id), max_offset in progress.queues.items()
    ]
    return join_entries(progress.position, progress.timestamp, entries)


def encode_entry(topic: str, queue_id: int, max_offset: int) -> bytes:
    """Pack what a progress says of one queue."""
    name = topic.encode()
    return b"".join((_LENGTH.pack(len(name)), name, _QUEUE.pack(queue_id, max_offset)))


def join_entries(position: int, timestamp: int, entries: Collection[bytes]) -> bytes:
    """Make a progress of packed entries."""
    data = b"".join((_HEAD.pack(MAGIC, position, timestamp, len(entries)), *entries))
    return data + _CRC.pack(zlib.crc32(data))


def decode_progress(data: bytes) -> Progress | None:
    """Unpack it; None if a single bit is wrong."""
    if len(data) < _HEAD.size + _CRC.size or not data.startswith(MAGIC):
        return None
    content = data[: -_CRC.size]
    if _CRC.unpack_from(data, len(content))[0] != zlib.crc32(content):
        return None
    _, position, timestamp, count = _HEAD.unpack_from(content)
    queues: dict[tuple[str, int], int] = {}
    at = _HEAD.size
    try:
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(content, at)
            at += _LENGTH.size
            topic = content[at : at + length].decode()
            queue_id, max_offset = _QUEUE.unpack_from(content, at + length)
            at += length + _QUEUE.size
            queues[topic, queue_id] = max_offset
    except (struct.error, UnicodeDecodeError):
        return None
    return Progress(position, timestamp, queues)


def read_progress(files: Files, root: Path) -> Progress | None:
    """Read what the last writer left, None if there is nothing to trust."""
    data = files.read_all(root / PROGRESS, PROGRESS_BYTES_MAX)
    return decode_progress(data) if data else None


def write_progress(files: Files, root: Path, progress: Progress, *, sync: bool) -> None:
    """Replace the file in one step; a crash may bring the older one back, which is true, too."""
    data = encode_progress(progress)
    replace_progress(files, root, (data[: -_CRC.size],), sync=sync)


def replace_progress(
    files: Files,
    root: Path,
    pieces: tuple[bytes, ...],
    *,
    sync: bool,
    put: Callable[[Path, Path], object] | None = None,
) -> None:
    """Write the pieces and their checksum to a file of its own, then `put` it in place."""
    path = root / PROGRESS
    fresh = path.with_name(f"{PROGRESS}.tmp")
    files.remove(fresh)
    fd = files.open(fresh, create=True)
    try:
        crc = at = 0
        for piece in pieces:
            files.write(fd, piece, at)
            crc, at = zlib.crc32(piece, crc), at + len(piece)
        files.write(fd, _CRC.pack(crc), at)
        if sync:
            files.sync(fd)
    finally:
        files.close(fd)
    (put or files.replace)(fresh, path)
    if sync:
        files.sync_directory(root)


def remove_progress(files: Files, root: Path) -> None:
    """Remove it: what follows will not keep its promise."""
    files.remove(root / PROGRESS)
