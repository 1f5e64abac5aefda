"""What a snapshot has: files with sizes and checksums, and where the log begins and ends."""

import hashlib
from pathlib import Path
from typing import Final, Literal

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.errors import SnapshotDamaged

MANIFEST: Final = "aerobee.snapshot"
PART: Final = "aerobee.snapshot.part"
STORE: Final = "store"
"""Names in a snapshot's folder: the list of what it has, the same while it is made, the files."""
MANIFEST_BYTES_MAX: Final = 1 << 30


class CopiedFile(msgspec.Struct, frozen=True):
    """A file by its place in the store; `sum` is that of `copied_files.FileSum`, in hexadecimal."""

    path: str
    bytes: int
    mode: int
    sum: str


class SourceFile(msgspec.Struct, frozen=True):
    """A whole file of the log that was copied, and which file it was a copy of."""

    copied: CopiedFile
    inode: int
    modified_ns: int


class StoreSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that is whole: taken at `taken_ms` since 1970, of a store in `store`.

    `was_served` says that a broker had it; then `log_end` is where its log ended, None where that
    could not be found, and the log was copied as it read.
    """

    version: Literal[1]
    taken_ms: int
    store: str
    was_served: bool
    log_end: int | None
    files: list[CopiedFile]

    @property
    def bytes(self) -> int:
        """How many bytes its files have, holes among them."""
        return sum(file.bytes for file in self.files)


def write_manifest(files: Files, folder: Path, manifest: StoreSnapshot) -> None:
    """Put the manifest into a snapshot's folder, durably: from then on it is one."""
    data = msgspec.json.encode(manifest)
    replace_file(files, folder / MANIFEST, b"%b\n%b\n" % (data, _sum(data)))


def read_manifest(files: Files, folder: Path) -> StoreSnapshot:
    """Read what a snapshot has; raises SnapshotDamaged where that cannot be believed."""
    path = folder / MANIFEST
    found = files.read_all(path, MANIFEST_BYTES_MAX)
    if found is None:
        if files.read_all(folder / PART, 1) is not None:
            raise SnapshotDamaged(f"{folder} is not whole: the same snapshot again completes it")
        raise SnapshotDamaged(f"{folder} is no snapshot: it has no {MANIFEST}")
    data, _, end = found.partition(b"\n")
    if end != _sum(data) + b"\n":
        raise SnapshotDamaged(f"{path} is damaged: it does not have its own checksum")
    try:
        return msgspec.json.decode(data, type=StoreSnapshot)
    except msgspec.MsgspecError as error:
        raise SnapshotDamaged(f"{path} is of another version: {error}") from None


def read_part(files: Files, folder: Path, fd: int) -> dict[str, SourceFile]:
    """Return which whole files of the log an interrupted snapshot has copied, by their paths.

    It reads by the number that holds the lock, which ends when any other is closed. What is no
    line, as the last one of a process that was killed, is passed over.
    """
    found: dict[str, SourceFile] = {}
    for line in files.read(fd, min(files.size(folder / PART), MANIFEST_BYTES_MAX), 0).splitlines():
        try:
            note = msgspec.json.decode(line, type=SourceFile)
        except msgspec.MsgspecError:
            continue
        found[note.copied.path] = note
    return found


def part_line(note: SourceFile) -> bytes:
    """Write one line of the list of an unfinished snapshot."""
    return msgspec.json.encode(note) + b"\n"


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
