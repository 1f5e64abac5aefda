"""The file `config/delayOffset.json`: how far each delay level was delivered, in RocketMQ's shape.

For us it is a hint, see `storage.features.delays.progress`; RocketMQ goes on from it when it opens
a store of ours. What it says is on the disk: it never runs ahead of the delivered messages.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from aerobee.broker.tables.table_file import TableFile, decode_table
from aerobee.remoting.bodies import DataVersion, DelayOffsets

VERSION_STEP: Final = 200  # delayOffsetUpdateVersionStep

_QUOTED_NUMBER: Final = re.compile(rb'"(-?\d+)":')
_BARE_NUMBER: Final = re.compile(rb"([{,]\s*)(-?\d+)\s*:")


class DelayOffsetTable:
    """Next offset to deliver by level, as the file says it."""

    def __init__(self, now_ms: Callable[[], int], folder: Path) -> None:
        self._now_ms = now_ms
        self._table: dict[int, int] = {}
        self._version = DataVersion(timestamp=now_ms())
        self._updates = 0
        self.file = TableFile(folder / "delayOffset.json", self.encode)

    def load(self) -> Mapping[int, int]:
        """Read the file and return the offsets; none without a file."""
        stored = self.file.load(_decode)
        if stored is not None:
            self._table = dict(stored.offset_table)
            self._version = stored.data_version or self._version
        return self._table

    def update(self, offsets: Mapping[int, int]) -> None:
        """Take the offsets as they are now; the file is written at the next flush."""
        if offsets == self._table:
            return
        before = self._updates // VERSION_STEP
        self._updates += sum(offsets.values()) - sum(self._table.values())
        self._table = dict(offsets)
        if self._updates // VERSION_STEP != before:
            self._version = msgspec.structs.replace(
                self._version, timestamp=self._now_ms(), counter=self._version.counter + 1
            )
        self.file.mark()

    def encode(self) -> bytes:
        """Return the text of the file."""
        return self.text(self._table)

    def text(self, table: Mapping[int, int]) -> bytes:
        """Return offsets as the file would have them; integer keys are bare, as fastjson's."""
        offsets = msgspec.json.encode({level: table[level] for level in sorted(table)})
        return b'{"dataVersion":%b,"offsetTable":%b}' % (
            msgspec.json.encode(self._version),
            _QUOTED_NUMBER.sub(rb"\1:", offsets),
        )


def _decode(data: bytes) -> DelayOffsets:
    return decode_table(DelayOffsets, _BARE_NUMBER.sub(rb'\1"\2":', data))
