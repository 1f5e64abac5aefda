"""RocketMQ's checkpoint: up to where log, queues and index are on the disk."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import astuple

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import CHECKPOINT, CHECKPOINT_FIELDS

CHECKPOINT_BYTES: Final = 4096
SLACK_MS: Final = 3000  # clocks and threads of the writer are not exact to the millisecond

_NUMBERS: Final = CHECKPOINT_FIELDS.run()
_OLD_BYTES: Final = CHECKPOINT_FIELDS.at("queue_position")  # before RocketMQ 5.5 there were five


class Checkpoint(msgspec.Struct, frozen=True):
    """Six numbers at the start of a 4 KiB file (StoreCheckpoint.java); times in milliseconds."""

    log_timestamp: int = 0  # every message stored until then is on the disk
    queue_timestamp: int = 0  # ... and so are their queue entries
    index_timestamp: int = 0
    master_flushed_position: int = 0
    confirm_position: int = 0
    queue_position: int = 0  # every entry of a record before it is on the disk; 0: not known

    @property
    def safe_timestamp(self) -> int:
        """A file whose first message is older than this is sound up to that message."""
        return max(0, min(self.log_timestamp, self.queue_timestamp) - SLACK_MS)


def read_checkpoint(files: Files, root: Path) -> Checkpoint:
    """Read the checkpoint of a store; a missing or short one counts as all zeros.

    One of five numbers, and one of an older RocketMQ, has the sixth 0.
    """
    data = files.read_all(root / CHECKPOINT, CHECKPOINT_BYTES) or b""
    if len(data) < _OLD_BYTES:
        return Checkpoint()
    return Checkpoint(*_NUMBERS.unpack_from(data.ljust(_NUMBERS.size, b"\0")))


def write_checkpoint(files: Files, root: Path, checkpoint: Checkpoint, *, sync: bool) -> None:
    """Write the checkpoint in place: 48 bytes of one sector are never torn."""
    fd = files.open(root / CHECKPOINT, create=True)
    try:
        files.resize(fd, CHECKPOINT_BYTES)
        files.write(fd, _NUMBERS.pack(*astuple(checkpoint)), 0)
        if sync:
            files.sync(fd)
    finally:
        files.close(fd)
