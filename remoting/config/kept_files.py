"""Small files that a crash at any moment leaves readable: tables and settings of the servers.

A file `topics.json` is replaced in three steps, as RocketMQ's ConfigManager does it, but never
written in place:

    1  write `topics.json.tmp`, fsync it
    2  rename `topics.json` to `topics.json.bak`
    3  rename `topics.json.tmp` to `topics.json`, fsync the folder

A crash before 2 leaves the old file, between 2 and 3 the old one under its `.bak` name, after 3
the new one; the loader reads the first of the two names that can be decoded. What a change made
is acknowledged only after 3.
"""

import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from aerobee.remoting.errors import AerobeeError, system_error

log = logging.getLogger(__name__)

T = TypeVar("T")
_PRIVATE: Final = 0o600


class KeptFileDamaged(AerobeeError):
    """Neither a file nor its backup can be read; the text names both and the way out."""


def load_kept_file(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """Read a table from its file or, where that is missing, empty or damaged, from its backup.

    Returns None when neither holds anything. Raises KeptFileDamaged when there is something but
    nothing of it can be decoded: to start with an empty table would forget it for good. So it does
    for want of a right to read one: that is no damage, and the other would be an older table.
    `decode` says that by ValueError, a msgspec error or one of ours.
    """
    damaged: list[str] = []
    path = _linked_to(path)
    for candidate in (path, _backup(path)):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise KeptFileDamaged(f"cannot read {system_error(error)}") from error
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
            log.error("kept_file damaged=%s read_instead=%s", "; ".join(damaged), candidate)
        return table
    if damaged:
        raise KeptFileDamaged(
            f"cannot read {'; '.join(damaged)}. Repair or restore one of them, or remove both to "
            "start without what they held."
        )
    return None


def replace_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace a file by `data`, keeping the previous one as `.bak`; durable on return.

    Whose it is and who may read and write it stays as it was: settings hold passwords, and are read
    by somebody else than root, who may change them. A `private` one, and its backup, nobody else
    may read, whatever it was before. A link to it stays, too.

    Raises OSError; the file then holds what it held before, itself or as its backup, or `data`, if
    only the last step failed, the sync of the folder: the next start may read either.
    """
    path = _linked_to(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    before = _status(path)
    fresh.unlink(missing_ok=True)  # one that a crash has left may be open to others
    fresh.touch(0o600 if private or before is not None else 0o666, exist_ok=False)
    with fresh.open("wb") as file:
        if before is not None:
            with suppress(OSError):  # only root may give files away
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            with suppress(OSError):  # a file system without rights
                os.fchmod(file.fileno(), _PRIVATE if private else stat.S_IMODE(before.st_mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        if private:
            with suppress(OSError):
                path.chmod(_PRIVATE)
        path.replace(_backup(path))
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _linked_to(path: Path) -> Path:
    """Return what a link leads to, be it there or not; all steps are done beside that."""
    return Path(os.path.realpath(path))


def _status(path: Path) -> os.stat_result | None:
    """Return whose a file is and who may use it, None where there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
