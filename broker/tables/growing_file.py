"""The file of a table that may be large: a change is answered by a line beside it, not by all.

The table itself is written at the first change of a process, where its text is short, when the
changes have as many bytes as the table has, where appending has failed, when it is saved (every
`flushConsumerOffsetInterval`), and at the stop: so RocketMQ, which knows nothing of the file
beside it, finds all there but what came in the last seconds before a kill.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from aerobee.broker.tables.changes_file import Change, ChangesFile
from aerobee.broker.tables.table_file import TableFile, Text
from aerobee.remoting.bodies import DataVersion

C = TypeVar("C", bound=Change)


class Growing(Protocol):
    """A table that can tell what has changed."""

    data_version: DataVersion

    def snapshot(self) -> Callable[[], bytes]:
        """Return what makes the table's text as it is now, for another thread."""
        ...

    def changed_since(self, marked: int) -> bytes:
        """Return the members of a change's JSON object: what the file was marked for since."""
        ...


class GrowingTableFile(TableFile, Generic[C]):
    """A table's file with its changes beside it; the invariant is `TableFile`'s."""

    def __init__(self, path: Path, table: Growing, changes: ChangesFile[C]) -> None:
        super().__init__(path, table.snapshot)
        self._table = table
        self._changes = changes

    def changes(self, version: DataVersion | None) -> list[C]:
        """Return the changes that the file lacks of which this is the version; see `read`."""
        return self._changes.read(version)

    async def save(self) -> None:
        """Write the table whole, if its file lacks anything. Raises OSError of the disk."""
        async with self._turn:
            if self.dirty or self._changes.used:
                await asyncio.to_thread(self._write_whole, self._marked, self._whole())

    def flush_now(self) -> None:
        """Write the table whole at once, in this thread, if its file lacks anything."""
        if self.dirty or self._changes.used:
            self._write_whole(self._marked, self._whole())

    def _next(self) -> Callable[[], object]:
        if self._changes.takes_more:
            return partial(self._changes.append, self._table.changed_since(self._written))
        return self._whole()

    def _whole(self) -> Callable[[], object]:
        return partial(self._replace_all, self._table.data_version, self._encode())

    def _replace_all(self, version: DataVersion, text: Text) -> None:
        self._changes.announce(version)
        self._changes.begin(version, self._replace(text))

    def _write_whole(self, marked: int, write: Callable[[], object]) -> None:
        """Write, unless a newer state has been written since `write` was made."""
        with self._writing:
            if self._written <= marked:
                self._tried(write)
                self._written = marked
