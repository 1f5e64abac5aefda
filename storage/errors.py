"""Why the store cannot do something, sorted by what to do next.

StoreError
├── StoreLocked       another process serves this store: stop it, or choose another path
├── WrongFileSize     a file does not have the configured size: mend the setting or the file
├── StoreDamaged      files are missing or contradict each other: run the verifier
├── SnapshotDamaged   a snapshot is not what its list says, or not whole: take another
├── FolderTaken       there is something where a snapshot or a store is to be: choose another
├── StoreReadOnly     the store cannot be written: reads go on, sends are refused
└── AppendRefused     this message is not stored
    ├── LogBusy            space is being prepared, try again in a moment (code 2)
    ├── LogFull            the disk is full (code 14)
    ├── LogUnavailable     closing, read-only, or a flush has failed (code 14)
    └── MessageTooLarge    the message breaks a limit of the store (code 13)
"""

from pathlib import Path
from typing import TYPE_CHECKING

from aerobee.remoting.errors import AerobeeError, CorruptRecord, Unavailable

if TYPE_CHECKING:
    from aerobee.storage.queue_tail import QueueTail

__all__ = [
    "AppendRefused",
    "CorruptRecord",
    "FolderTaken",
    "LogBusy",
    "LogFull",
    "LogUnavailable",
    "MessageTooLarge",
    "SnapshotDamaged",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StoreReadOnly",
    "WrongFileSize",
]


class StoreError(AerobeeError):
    """The store, or one of its files, cannot be used as asked."""


class StoreLocked(StoreError):
    """Another process, or another store object of this one, has this store open."""


class WrongFileSize(StoreError):
    """A file has another size than the settings say; nothing has been changed."""


class StoreDamaged(StoreError):
    """Files are missing or contradict each other in a way that recovery must not paper over."""


class SnapshotDamaged(StoreError):
    """A snapshot is not whole, or a file of it is not what was copied; the text names it."""


class FolderTaken(StoreError):
    """A folder that is to become a snapshot, or a store, has something in it."""


class StoreReadOnly(StoreError):
    """The files can be read but not written; the text names the path and the system's reason."""


class AppendRefused(StoreError):
    """The message was not stored, and nothing of it is in the log.

    Where a file had no room: `path` is the file or its folder, `need_bytes` what it wanted, `queue`
    the queue that it is of, None for the log; None and 0 where it was something else.
    """

    def __init__(
        self,
        text: str,
        *,
        path: Path | None = None,
        need_bytes: int = 0,
        queue: "QueueTail | None" = None,
    ) -> None:
        super().__init__(text)
        self.path = path
        self.need_bytes = need_bytes
        self.queue = queue


class LogBusy(AppendRefused, Unavailable):
    """The space behind the last record is not prepared yet; the same append soon succeeds."""


class LogFull(AppendRefused):
    """The disk has no room for the next record, or is fuller than the settings allow."""


class LogUnavailable(AppendRefused):
    """The log takes no messages now: it is closing, read-only, or a flush has failed."""


class MessageTooLarge(AppendRefused):
    """The body, the properties or the whole record is longer than the store can keep."""
