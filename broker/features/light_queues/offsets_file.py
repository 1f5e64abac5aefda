"""`config/lmqConsumerOffset.json`, where RocketMQ keeps all offsets while light queues are on.

The broker's own table has the offsets of every group, and its file is consumerOffset.json, whether
light queues are on or off. RocketMQ has two files instead and reads the one that belongs to its
settings. So this one is written beside it; at a start the newer of both says what the other does
not know, or knows otherwise.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.tables.committed import SEPARATOR, OffsetTable, decode_offsets
from aerobee.broker.tables.table_file import TableFile
from aerobee.remoting.bodies import DataVersion
from aerobee.remoting.config.kept_files import load_kept_file
from aerobee.remoting.words import LIGHT_QUEUE_PREFIX
from aerobee.storage.queues.light import LIGHT_QUEUE_ID

FILE: Final = "lmqConsumerOffset.json"
_OF_QUEUE_0: Final = re.compile(rb":\{0:(-?\d+)[,}]")


class LightOffsetsFile:
    """Takes over what RocketMQ has left, and writes what it will read."""

    def __init__(self, offsets: OffsetTable, folder: Path) -> None:
        self._offsets = offsets
        self._saved = -1  # the table's changes that the file has
        self.file = TableFile(folder / FILE, self._encode)

    def take_over(self, end_of: Callable[[str, int], int]) -> int:
        """Take offsets from the file where it is the newer one; return how many that were.

        `end_of` says where a queue ends: none is taken to be beyond.
        """
        path = self.file.path
        found = load_kept_file(path, _decode)
        if found is None:
            return 0
        own = self._offsets.file.path
        newer = not own.exists() or path.stat().st_mtime_ns > own.stat().st_mtime_ns
        taken = 0
        for key, queues in found.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                known = self._offsets.committed(group, topic, queue_id)
                there = min(offset, end_of(topic, queue_id))
                if known is None or (newer and known != there):
                    taken += self._offsets.commit(group, topic, queue_id, there)
        return taken

    async def save(self) -> None:
        """Write the file after the table's own, if that has changed; OSError of the disk."""
        await self._offsets.flush()
        if self._offsets.commits != self._saved:
            self._saved = self._offsets.commits
            self.file.mark()
        await self.file.flush()

    def save_now(self) -> None:
        """Write the file at the stop, when the table's own is written."""
        self.file.mark()
        self.file.flush_now()

    def _encode(self) -> Callable[[], bytes]:
        version, entries = self._offsets.data_version, self._offsets.pieces()
        return lambda: _text(version, entries)


def _text(version: DataVersion, entries: dict[str, bytes]) -> bytes:
    """Join what the table has encoded; a light group's entry is a number, of its one queue."""
    light, others = [], []
    for key, piece in entries.items():
        if not key.partition(SEPARATOR)[2].startswith(LIGHT_QUEUE_PREFIX):
            others.append(piece)
        elif found := _OF_QUEUE_0.search(piece):
            light.append(b"%b:%b" % (msgspec.json.encode(key), found[1]))
    return b'{"dataVersion":%b,"lmqOffsetTable":{%b},"offsetTable":{\n%b\n}}' % (
        msgspec.json.encode(version), b",".join(light), b",\n".join(others),
    )  # fmt: skip


def _decode(data: bytes) -> dict[str, dict[int, int]]:
    """Read either broker's text as offsets by key and queue."""
    found = decode_offsets(data)
    light = found.lmq_offset_table or {}
    return found.offset_table | {key: {LIGHT_QUEUE_ID: offset} for key, offset in light.items()}
