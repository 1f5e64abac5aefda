"""Keeps the snapshot of unique keys: gathered in steps on the loop, written beside it."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.features.dedup.snapshot import encode_snapshot
from aerobee.storage.layout import DEDUP
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

ROWS_AT_ONCE: Final = 10_000


class Saving:
    """Writes what is known; a snapshot that cannot be written costs the next start some reading."""

    def __init__(self, store: MessageStore, firsts: TopicFirsts) -> None:
        self._store = store
        self._firsts = firsts
        self.path: Path = store.settings.root / DEDUP
        self.error: OSError | None = None  # why the last one was not written
        self._saved: tuple[int, frozenset[str]] | None = None  # keys so far, and topics

    async def save(self) -> None:
        """Write a snapshot, if anything has changed."""
        state = self._state()
        if self._store.read_only or state == self._saved:
            return
        topics, rows = self._topics(), list[bytes]()
        if topics:
            keys = self._firsts.keys
            keys.rewind()
            while some := keys.rows(ROWS_AT_ONCE):
                rows.append(some)
                await asyncio.sleep(0)
        try:
            await asyncio.to_thread(self._write, topics, rows)
        except OSError as error:
            self._failed(error)
            return
        self.error, self._saved = None, state

    def save_now(self) -> OSError | None:
        """Write it at once, at the end; return what the disk says against it."""
        if self._store.read_only or self._state() == self._saved:
            return None
        topics, rows = self._topics(), list[bytes]()
        if topics:
            keys = self._firsts.keys
            keys.rewind()
            while some := keys.rows(ROWS_AT_ONCE):
                rows.append(some)
        try:
            self._write(topics, rows)
        except OSError as error:
            return error
        return None

    def _state(self) -> tuple[int, frozenset[str]]:
        topics = frozenset(self._firsts.numbers)
        return self._firsts.keys.put_count if topics else 0, topics

    def _topics(self) -> dict[int, str]:
        return {number: topic for topic, number in self._firsts.numbers.items()}

    def _write(self, topics: dict[int, str], rows: list[bytes]) -> None:
        """Put a snapshot in the place of the last one; without topics there is none."""
        if topics:
            replace_file(self._store.files, self.path, encode_snapshot(topics, rows))
        elif self.path.exists():
            self._store.files.remove(self.path)

    def _failed(self, error: OSError) -> None:
        if self.error is None:
            log.warning("unique_keys_not_saved path=%s error=%s", self.path, error)
        self.error = error
