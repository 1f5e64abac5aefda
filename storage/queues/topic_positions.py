"""A note of ours with a position of the log for each of some topics."""

import logging
from collections.abc import Mapping
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import put_file
from aerobee.storage.proofs.progress import (
    PROGRESS_BYTES_MAX,
    decode_progress,
    encode_entry,
    join_entries,
)

log = logging.getLogger(__name__)


class TopicPositions:
    """Positions before which a topic's records do not count, until the log has nothing older.

    The file is a progress file, in which each topic has a queue 0 with that position.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._positions: dict[str, int] = {}
        self._packed: dict[str, bytes] = {}  # positions as they are in the file, from the first add

    def load(self) -> None:
        """Read what the last writer left; a damaged file says nothing."""
        data = self._files.read_all(self._path, PROGRESS_BYTES_MAX)
        noted = decode_progress(data) if data else None
        queues = noted.queues if noted is not None else {}
        self._positions = {topic: position for (topic, _), position in queues.items()}
        self._packed = {}

    def before(self, topic: str) -> int:
        """Return the position before which no record of a topic counts; 0: all of them do."""
        return self._positions.get(topic, 0)

    def add(self, positions: Mapping[str, int], log_begin: int) -> None:
        """Note, durably, the positions of some topics; OSError: nothing has changed."""
        kept = {name: at for name, at in self._positions.items() if at > log_begin}
        self._replace(kept, positions)

    def settle(self, log_begin: int, log_end: int) -> None:
        """Let the note be true of a log that has lost its end: what follows there is new.

        To be called before anything is appended; OSError: nothing has changed.
        """
        kept = {name: at for name, at in self._positions.items() if at > log_begin}
        cut = {name: log_end for name, at in kept.items() if at > log_end}
        if cut or len(kept) < len(self._positions):
            self._replace(kept, cut)

    def _replace(self, kept: dict[str, int], changed: Mapping[str, int]) -> None:
        """Note what is kept of the positions, and what has changed.

        What is kept is not packed again: ten thousand are, when one more is added.
        """
        known = self._packed.get
        packed = {name: known(name) or encode_entry(name, 0, at) for name, at in kept.items()}
        packed |= {name: encode_entry(name, 0, at) for name, at in changed.items()}
        put_file(self._files, self._path, join_entries(0, 0, packed.values()))
        self._positions, self._packed = {**kept, **changed}, packed
        try:
            self._files.sync_directory(self._path.parent)
        except OSError as error:  # it is there for all but a loss of power
            log.error("note_not_synced path=%s error=%s", self._path, error)
