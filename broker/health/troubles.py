"""What keeps messages or tables from being stored, from its beginning to its end.

A trouble is told by one ERROR when it begins and one INFO when it has ended, however many messages
are refused meanwhile; in between it is a reason of `/readyz`. Whether it has ended is found out by
doing what failed, so a broker recovers by itself as soon as there is room, sends or no sends.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from aerobee.broker.room import KeptFile
from aerobee.storage.errors import AppendRefused, LogBusy, StoreError
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
ROOM_ASKED_MAX: Final = 64  # files whose room is asked for in one look


class Troubles:
    """The troubles of one broker; `look` is to be called every `LOOK_INTERVAL_S`.

    `clock_s` must never go back. `files` are the tables to watch.
    """

    def __init__(self, store: MessageStore, clock_s: Callable[[], float]) -> None:
        self._store = store
        self._clock_s = clock_s
        self.files: list[KeptFile] = []
        self._unsaved: dict[Path, float] = {}  # table that cannot be saved, since when
        self._wanting: dict[Path, AppendRefused] = {}  # file without room, and who wanted it
        self._refusing = False  # its beginning was told, and not yet its end
        self._began_s = 0.0
        self.refused = 0  # messages, since the trouble began

    def met(self, error: StoreError) -> None:
        """Take note that a message was refused; what is no lack of room is told by the store."""
        if isinstance(error, AppendRefused) and error.path is not None:
            self._want(error.path, error)
            self.refused += 1

    def _want(self, path: Path, error: AppendRefused) -> None:
        if not self._refusing:
            self._refusing = True
            self._began_s, self.refused = self._clock_s(), 0
            log.error(
                "store_refuses path=%s need_bytes=%d reason=%s",
                path,
                error.need_bytes,
                error.__cause__ or error,
            )
        self._wanting[path] = error

    def look(self) -> None:
        """Find out what has begun and what is over.

        Room alone is no end while the store refuses for another reason: nothing is taken again.
        """
        for file in self.files:
            self._look_at(file)
        for error in self._store.flusher.refusals(ROOM_ASKED_MAX):
            if error.path is not None:
                self._want(error.path, error)
        if not self._refusing:
            return
        room = self._has_room(list(self._wanting)[:ROOM_ASKED_MAX])
        if room and self._store.commit_log.refusal is None:
            self._refusing = False
            log.info(
                "store_takes_again after_s=%.1f refused=%d",
                self._clock_s() - self._began_s,
                self.refused,
            )

    def reasons(self) -> list[str]:
        """Say what is wrong at this moment, a sentence each; nothing where all is well."""
        found = [
            f"no room: {path} needs {error.need_bytes} bytes: {error.__cause__ or error}"
            for path, error in list(self._wanting.items())[:1]
        ]
        found += [
            f"table not saved: {file.path}: {file.error}" for file in self.files if file.error
        ]
        return found

    def _look_at(self, file: KeptFile) -> None:
        if file.error is not None:
            if file.path not in self._unsaved:
                self._unsaved[file.path] = self._clock_s()
                log.error("table_not_saved path=%s error=%s", file.path, file.error)
        elif (since := self._unsaved.pop(file.path, None)) is not None:
            log.info("table_saved_again path=%s after_s=%.1f", file.path, self._clock_s() - since)

    def _has_room(self, paths: Iterable[Path]) -> bool:
        """Try what failed, until something fails again; whether nothing is left that failed."""
        for path in paths:
            try:
                self._try_again(self._wanting[path])
            except LogBusy:
                return False  # it is being prepared
            except AppendRefused as error:
                if error.path is not None:
                    self._wanting[path] = error
                    return False
                # refused for another reason, which the store tells
            del self._wanting[path]
        return not self._wanting

    def _try_again(self, error: AppendRefused) -> None:
        queue = error.queue
        if queue is None:
            self._store.commit_log.require(error.need_bytes)
            return
        found = self._store.find_queue(queue.topic, queue.queue_id)
        if found is not None and found is queue:  # else it was deleted
            found.extend()
            self._store.commit_log.require(0)  # room for one queue may not be room for all
