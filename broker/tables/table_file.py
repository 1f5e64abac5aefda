"""The broker's tables as JSON files: written aside, one write at a time, by whoever has to wait.

`remoting.config.kept_files` says how a file is replaced and what a crash at each step leaves.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from aerobee.remoting.bodies import Body, decode_body
from aerobee.remoting.config.kept_files import load_kept_file, replace_file

T = TypeVar("T")
B = TypeVar("B", bound=Body)
Text: TypeAlias = bytes | Callable[[], bytes]


def decode_table(table_type: type[B], data: bytes) -> B:
    """Read a table of RocketMQ's or ours: standard JSON of any size, or fastjson's, bounded."""
    try:
        return msgspec.json.decode(data, type=table_type, strict=False)
    except ValueError:
        return decode_body(table_type, data)


class TableFile:
    """Keeps one table's file up to date without making the event loop wait for the disk.

    `encode` is called on the loop's thread and returns the text or, for a table that takes long,
    what makes it of a snapshot; the writing happens in a thread, one write at a time; changes that
    come while a write is under way share the next one. What is `private` is for the owner of the
    process alone. Invariant: when `flush` returns, the file
    holds every change marked before the call.
    """

    def __init__(self, path: Path, encode: Callable[[], Text], *, private: bool = False) -> None:
        self.path = path
        self._private = private
        self.error: OSError | None = None  # why the last attempt failed, None when it did not
        self._encode = encode
        self._marked = 0  # changes told so far
        self._written = 0  # changes the file holds
        self._turn = asyncio.Lock()
        self._writing = threading.Lock()  # a cancelled flush leaves its thread behind for a moment

    @property
    def marked(self) -> int:
        """How many changes have been told so far."""
        return self._marked

    @property
    def written(self) -> int:
        """How many of them are on the disk."""
        return self._written

    @property
    def dirty(self) -> bool:
        """Whether the table has changes that the file has not."""
        return self._written < self._marked

    def mark(self) -> None:
        """Note that the table has changed."""
        self._marked += 1

    def load(self, decode: Callable[[bytes], T]) -> T | None:
        """Read the table; see `load_kept_file`."""
        return load_kept_file(self.path, decode)

    async def flush(self) -> None:
        """Return when every change marked so far is on disk. Raises OSError of the disk."""
        wanted = self._marked
        if self._written >= wanted:
            return
        async with self._turn:
            if self._written < wanted:  # else the write that we waited for carried our change too
                await asyncio.to_thread(self._write, self._marked, self._next())

    async def save(self) -> None:
        """Write what has changed, now and then. Raises OSError of the disk."""
        await self.flush()

    def flush_now(self) -> None:
        """Write the table at once, in this thread: for the end of the process."""
        if self.dirty:
            self._write(self._marked, self._whole())

    def _next(self) -> Callable[[], object]:
        """Return what brings the changes so far to the disk, for another thread."""
        return self._whole()

    def _whole(self) -> Callable[[], object]:
        """Return what writes the table as it is now, for another thread."""
        return partial(self._replace, self._encode())

    def _replace(self, text: Text) -> int:
        """Put a text in the place of the file; return its bytes."""
        data = text if isinstance(text, bytes) else text()
        replace_file(self.path, data, private=self._private)
        return len(data)

    def _write(self, marked: int, write: Callable[[], object]) -> None:
        with self._writing:
            if self._written < marked:
                self._tried(write)
                self._written = marked

    def _tried(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self.error = error
            raise
        self.error = None
