"""Small tables kept as JSON files that a crash at any moment leaves readable.

A file `topics.json` is replaced in three steps, as RocketMQ's ConfigManager does it, but never
written in place:

    1  write `topics.json.tmp`, fsync it
    2  rename `topics.json` to `topics.json.bak`
    3  rename `topics.json.tmp` to `topics.json`, fsync the folder

A crash before 2 leaves the old file, between 2 and 3 the old one under its `.bak` name, after 3
the new one; the loader reads the first of the two names that can be decoded. What a change made
is acknowledged only after 3.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from aerobee.remoting.bodies import Body, decode_body
from aerobee.remoting.errors import AerobeeError

log = logging.getLogger(__name__)

T = TypeVar("T")
B = TypeVar("B", bound=Body)


class TableFileDamaged(AerobeeError):
    """Neither a table's file nor its backup can be read; the text names both and the way out."""


def load_json_file(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Read a table from its file or, where that is missing, empty or damaged, from its backup.

    Returns None when neither holds anything. Raises TableFileDamaged when there is something but
    nothing of it can be decoded: to start with an empty table would forget it for good.
    `decode` says that by ValueError, a msgspec error or one of ours.
    """
    damaged: list[str] = []
    for candidate in (path, _backup(path)):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            damaged.append(f"{candidate}: {error.strerror}")
            continue
        if not data.strip(b"\0 \t\r\n"):
            continue  # an empty file is what a crash of a writer in place leaves
        try:
            table = decode(data)
        except (AerobeeError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            damaged.append(f"{candidate}: {type(error).__name__}: {error}")
            continue
        if damaged:
            log.error("table_file damaged=%s read_instead=%s", "; ".join(damaged), candidate)
        return table
    if damaged:
        raise TableFileDamaged(
            f"cannot read {'; '.join(damaged)}. Repair or restore one of them, or remove both to "
            "start without what they held."
        )
    return None


def replace_file(path: Path, data: bytes) -> None:
    """Replace a table's file by `data`, keeping the previous one as `.bak`; durable on return.

    Raises OSError; the file then holds what it held before, itself or as its backup.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(_backup(path))
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def decode_table(table_type: type[B], data: bytes) -> B:
    """Read a table of RocketMQ's or ours: standard JSON of any size, or fastjson's, bounded."""
    try:
        return msgspec.json.decode(data, type=table_type, strict=False)
    except ValueError:
        return decode_body(table_type, data)


class TableFile:
    """Keeps one table's file up to date without making the event loop wait for the disk.

    `encode` is called on the loop's thread, the writing happens in a thread, one write at a time;
    changes that come while a write is under way share the next one. Invariant: when `flush`
    returns, the file holds every change marked before the call.
    """

    def __init__(self, path: Path, encode: Callable[[], bytes]) -> None:
        self.path = path
        self._encode = encode
        self._marked = 0  # changes told so far
        self._written = 0  # changes the file holds
        self._turn = asyncio.Lock()
        self._writing = threading.Lock()  # a cancelled flush leaves its thread behind for a moment

    @property
    def dirty(self) -> bool:
        """Whether the table has changes that the file has not."""
        return self._written < self._marked

    def mark(self) -> None:
        """Note that the table has changed."""
        self._marked += 1

    def load(self, decode: Callable[[bytes], T]) -> T | None:
        """Read the table; see `load_json_file`."""
        return load_json_file(self.path, decode)

    async def flush(self) -> None:
        """Return when every change marked so far is on disk. Raises OSError of the disk."""
        wanted = self._marked
        if self._written >= wanted:
            return
        async with self._turn:
            if self._written < wanted:  # else the write that we waited for carried our change too
                await asyncio.to_thread(self._write, self._marked, self._encode())

    def flush_now(self) -> None:
        """Write the table at once, in this thread: for the end of the process."""
        if self.dirty:
            self._write(self._marked, self._encode())

    def _write(self, marked: int, data: bytes) -> None:
        with self._writing:
            if self._written < marked:
                replace_file(self.path, data)
                self._written = marked


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
