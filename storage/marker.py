"""A note of how far log and queues were written in this boot of the machine.

When a process dies, the page cache keeps what it has written; when the machine dies, it does not.
So a position noted together with the kernel's boot id proves, while that id lasts, that all before
it is in the files. The note is 56 bytes: boot id (36) · position i64 · crc32 u32 · zeros.
"""

import struct
import zlib
from pathlib import Path
from typing import Final

from aerobee.storage.files import Files

MARKER: Final = "aerobee.written"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_NOTE: Final = struct.Struct(">36sq")
_CRC: Final = struct.Struct(">I")


def boot_id() -> bytes:
    """Return the kernel's boot id, empty where there is none: then no note counts."""
    try:
        return BOOT_ID.read_bytes().strip()[:36]
    except OSError:
        return b""


class Marker:
    """Keeps the note of one open store."""

    def __init__(self, files: Files, root: Path, boot: bytes | None = None) -> None:
        self._files = files
        self._path = root / MARKER
        self._boot = boot_id() if boot is None else boot
        self._fd = -1

    def read(self) -> int | None:
        """Return the position that is proven, None if there is no note of this boot."""
        data = self._files.read_all(self._path, 4096) or b""
        if len(data) < _NOTE.size + _CRC.size or len(self._boot) != 36:
            return None
        if _CRC.unpack_from(data, _NOTE.size)[0] != zlib.crc32(data[: _NOTE.size]):
            return None
        boot, position = _NOTE.unpack_from(data)
        return int(position) if boot == self._boot else None

    def write(self, position: int) -> None:
        """Note that everything before `position` has been written to log and queues."""
        if self._fd < 0:
            self._fd = self._files.open(self._path, create=True)
        note = _NOTE.pack(self._boot, position)
        self._files.write(self._fd, note + _CRC.pack(zlib.crc32(note)), 0)

    def remove(self) -> None:
        """Withdraw the note."""
        self.close()
        self._files.remove(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1
