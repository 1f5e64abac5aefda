"""The note that a sync has failed: `aerobee.doubt`."""

import logging
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import Layout
from aerobee.storage.disk.files import Files
from aerobee.storage.layout import DOUBT
from aerobee.storage.proofs.boot_note import BootNote

log = logging.getLogger(__name__)

MAGIC: Final = b"AERODBT1"

_FIELDS: Final = Layout(magic="8s", position="q", crc="I")  # CRC-32 of all before
_NOTE: Final = _FIELDS.run()
_CONTENT: Final = _FIELDS.run("magic", "position")


class Doubt:
    """Says from where on the disk may not have what the page cache shows.

    It is noted twice: in the boot note's page, which is mapped, so that the next process of this
    boot sees it even where the disk takes no more writes; and in a synced file of its own. After a
    restart of the machine there is no page cache left to be doubted.
    """

    def __init__(self, files: Files, root: Path, boot_note: BootNote) -> None:
        self._files = files
        self._root = root
        self._boot_note = boot_note
        self.position: int | None = None

    def read(self, proven: int) -> int | None:
        """Return what earlier processes have noted, None for no doubt.

        A note that did not reach the disk whole stands for `proven`, what was proven before it.
        """
        data = self._files.read_all(self._root / DOUBT, _NOTE.size)
        found = [] if (marked := self._boot_note.doubted()) is None else [marked]
        if data is not None:
            found.append(proven)
            if len(data) == _NOTE.size:
                magic, position, crc = _NOTE.unpack(data)
                if magic == MAGIC and crc == zlib.crc32(data[: _CONTENT.size]) and position >= 0:
                    found[-1] = position
        self.position = min(found, default=None)
        return self.position

    def begin(self, position: int) -> Callable[[], None]:
        """End the boot note's proof in memory, now; return the work of noting it on the disk.

        Each step of that is tried, whatever became of those before it.
        """
        known = self.position
        if known is None or position < known:
            log.error("store_doubted path=%s position=%d", self._root, position)
        else:
            position = known
        self.position = position
        self._boot_note.doubt(position)

        def note() -> None:
            steps: list[Callable[[], None]] = [
                partial(self._write, position),
                self._boot_note.remove,
            ]
            for step in [*steps, self._sync]:
                try:
                    step()
                except OSError as error:  # a dying disk: see write_doubted_anew
                    log.error("doubt_not_noted path=%s error=%s", self._root, error)

        return note

    def end(self) -> Callable[[], None]:
        """Return the work of withdrawing the note: all that was doubted is on the disk."""
        self.position = None

        def remove() -> None:
            self._files.remove(self._root / DOUBT)
            self._sync()

        return remove

    def _write(self, position: int) -> None:
        crc = zlib.crc32(_CONTENT.pack(MAGIC, position))
        fd = self._files.open(self._root / DOUBT, create=True)
        try:
            self._files.write(fd, _NOTE.pack(MAGIC, position, crc), 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._sync()

    def _sync(self) -> None:
        self._files.sync_directory(self._root)
