"""What a large table was told since its file was last written whole: `NAME.changes` beside `NAME`.

To write 25,000 groups for each answer costs what the table has, not what has changed. So the
changes are appended here, a line for each write, and synced before they are answered:

    5e6f7a8b {"tableVersion":{...},"dataVersion":{...}, what has changed}

The eight digits are the CRC-32 of the rest. `tableVersion` is the data version that stands in the
table's file, to which the change belongs, and `dataVersion` the one with the change. Each line
says of the names in it all that there is, so that it does no harm to read one twice.

When the table is about to be written whole, a line with nothing but the version that it will have
is appended, unless the file is to be kept; once it is written, this file is removed. A start finds:

    lines of the version that the table has        the changes that it lacks
    the same, among others of an older one         those before the last such line it has
    a last line without its end, or with zeros     an append that was under way: never answered
    any other with a wrong sum                     the others count, the file is kept and told of
    only versions with a higher counter and no
      earlier time                                 an older table, its backup: all changes count
    only versions that are not the table's         somebody else has written the table meanwhile:
                                                   nothing counts, the file is kept and told of

What is kept is renamed `NAME.changes.left`, with a number where there is one already. Where this
file cannot be read the start ends: what was answered would be forgotten. Where it is removed or
shortened under a broker that runs, the next change is refused, and the table is written whole.
"""

import errno
import logging
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from aerobee.remoting.bodies import Body, DataVersion
from aerobee.remoting.config.kept_files import KeptFileDamaged
from aerobee.remoting.errors import system_error
from aerobee.storage.disk.files import Files

log = logging.getLogger(__name__)

TABLE_BYTES_LEAST: Final = 256 << 10
"""Of a table for which this is worth while: below, to replace a file costs more than its bytes."""

READ_BYTES_MAX: Final = 1 << 30
_SUM_BYTES: Final = 9  # with the space behind it


class Change(Body, frozen=True, kw_only=True):
    """A line: what a table of some version was told; without `data_version` nothing."""

    table_version: DataVersion
    data_version: DataVersion | None = None


C = TypeVar("C", bound=Change)


class ChangesFile(Generic[C]):
    """Appends the changes of one table, and reads those that a process before left.

    All but `read` is called by one thread at a time, any. Invariant: while `takes_more`, the disk
    has every change since the table was written, there or here.
    """

    def __init__(self, table: Path, kind: type[C], files: Files | None = None) -> None:
        self._table = table
        self._kind = kind
        self._files = files or Files()
        self._base: DataVersion | None = None  # of the table's file, None: this process wrote none
        self._table_bytes = 0
        self._bytes = 0  # of sound lines
        self._there = False  # whether there may be a file
        self._kept = False  # whether somebody should look at it
        self._sound = False  # whether it can go on behind what is there

    @property
    def path(self) -> Path:
        """Beside what the table's name leads to."""
        table = Path(os.path.realpath(self._table))
        return table.with_name(table.name + ".changes")

    @property
    def takes_more(self) -> bool:
        """Whether the next change may be appended: its bytes are fewer than the table's."""
        return self._sound and self._table_bytes >= max(TABLE_BYTES_LEAST, self._bytes)

    @property
    def used(self) -> bool:
        """Whether the table's file lacks changes that are here."""
        return self._bytes > 0

    def read(self, version: DataVersion | None) -> list[C]:
        """Return the changes that a table with this version lacks, oldest first; None: no table.

        Raises KeptFileDamaged where the file cannot be read.
        """
        try:
            data = self._files.read_all(self.path, READ_BYTES_MAX + 1)
            if data is not None and len(data) > READ_BYTES_MAX:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self.path))
        except OSError as error:
            raise KeptFileDamaged(
                f"cannot read {system_error(error)}. Repair it, or move it away to start without "
                "the changes that it holds."
            ) from error
        if data is None:
            return []
        self._there = True
        lines = list(self._lines(data))
        changes = [line for line in lines if line.data_version is not None]
        known = [line.table_version for line in lines]
        if version in known:
            return [line for line in changes if line.table_version == version]
        if not changes:
            return []
        if version is not None and all(_is_older(version, each) for each in known):
            log.error(
                "table_changes older_table=%s counter=%d changes_from=%d: all of %s count",
                self._table, version.counter, known[0].counter, self.path,
            )  # fmt: skip
            return changes
        log.error(
            "table_changes not_of=%s changes=%d: somebody else has written the table since; they"
            " are not taken and will be kept as %s.left",
            self._table, len(changes), self.path,
        )  # fmt: skip
        self._kept = True
        return []

    def append(self, fields: bytes) -> None:
        """Have a change on the disk: the members of its JSON object but the table's version.

        Raises OSError; then nothing more is taken until the table has been written whole.
        """
        if not self._sound or self._base is None:
            raise OSError(f"{self._table}: its last write has failed")
        self._sound = False  # a sync that failed leaves nobody knows what
        self._append(b'{"tableVersion":%b,%b}' % (msgspec.json.encode(self._base), fields))
        self._sound = True

    def announce(self, version: DataVersion) -> None:
        """Note that the table is about to be written with this version.

        Where that fails, and the process ends before the file is removed, it is kept for nothing.
        """
        self._sound = False
        if self._there and not self._kept:
            with suppress(OSError):
                self._append(b'{"tableVersion":%b}' % msgspec.json.encode(version))

    def begin(self, version: DataVersion, table_bytes: int) -> None:
        """Begin anew: the table's file has been written with this version, and has everything."""
        try:
            if self._there:
                self._put_away()
        except OSError as error:
            log.warning("table_changes not_removed=%s", system_error(error))
            return  # and the table is written whole until it is
        self._there = self._kept = False
        self._base, self._table_bytes, self._bytes = version, table_bytes, 0
        self._sound = True

    def _put_away(self) -> None:
        path = self.path
        if not self._kept:
            self._files.remove(path)
            return
        names = set(self._files.names(path.parent))
        left = (f"{path.name}.left{number or ''}" for number in count())
        self._files.replace(path, path.with_name(next(each for each in left if each not in names)))

    def _append(self, text: bytes) -> None:
        line = b"%08x %b\n" % (zlib.crc32(text), text)
        path, new = self.path, not self._bytes
        if (
            not new and self._files.size(path) < self._bytes
        ):  # or it is gone, which is an error, too
            raise OSError(f"{path} has been shortened by somebody else")
        self._there = True
        fd = self._files.open(path, create=True)
        try:
            self._files.resize(fd, self._bytes)  # what was never answered goes
            if new:
                self._lend_rights(fd)
            self._files.write(fd, line, self._bytes)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        if new:
            self._files.sync_directory(path.parent)
        self._bytes += len(line)

    def _lend_rights(self, fd: int) -> None:
        """Let those read it who may read the table."""
        with suppress(OSError):
            table = self._table.stat()
            os.fchmod(fd, stat.S_IMODE(table.st_mode))
            os.fchown(fd, table.st_uid, table.st_gid)

    def _lines(self, data: bytes) -> Iterator[C]:
        """Yield the sound lines; note where they end, and whether others lie among them."""
        at, wrong = 0, 0
        while at < len(data):
            end = data.find(b"\n", at) + 1 or len(data)
            line = self._decoded(data[at:end])
            at = end
            if line is None:
                wrong += 1
                continue
            self._note_damage(wrong)
            wrong = 0
            self._bytes = at
            yield line
        last = data[data.rfind(b"\n", 0, -1) + 1 :]
        if wrong and (not last.endswith(b"\n") or b"\0" in last):
            log.warning("table_changes unfinished=%s bytes=%d", self.path, len(last))
            wrong -= 1
        self._note_damage(wrong)

    def _note_damage(self, lines: int) -> None:
        if lines:
            log.error("table_changes damaged=%s lines=%d", self.path, lines)
            self._kept = True

    def _decoded(self, line: bytes) -> C | None:
        """Return what a line says, None if it is damaged."""
        text = line[_SUM_BYTES:-1]
        if line != b"%08x %b\n" % (zlib.crc32(text), text):
            return None
        try:
            return msgspec.json.decode(text, type=self._kind, strict=False)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise KeptFileDamaged(
                f"cannot read {self.path}: {error}. Start the version that wrote it, or move it "
                "away to start without the changes that it holds."
            ) from error


def _is_older(one: DataVersion, other: DataVersion) -> bool:
    """Whether one may be an earlier version of a table: who makes it anew counts from the start."""
    return one.counter < other.counter and one.timestamp <= other.timestamp
