"""What is noted of copies: how far rounds have come, for both brokers, and what is synced, ours."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import put_file
from aerobee.storage.layout import COMPACTED, COPIED
from aerobee.storage.proofs.progress import Progress, decode_progress, encode_progress

log = logging.getLogger(__name__)

NOTE_BYTES_MAX: Final = 256 << 20

Offsets = Mapping[tuple[str, int], int]


def read_compacted(files: Files, root: Path) -> dict[tuple[str, int], int]:
    """Return the offsets up to which rounds have come; a file that makes no sense says nothing.

    Then the next rounds look at everything again.
    """
    data = _read(files, root / COMPACTED)
    try:
        table = json.loads(data or b"{}").get("queueOffsetMap", {})
        found = {}
        for name, offset in table.items():
            topic, _, number = name.rpartition("_")
            found[topic, int(number)] = int(offset)
    except (ValueError, AttributeError, TypeError):
        return {}
    return found


def _read(files: Files, path: Path) -> bytes | None:
    """Return a note, None where there is none, or the disk does not give it."""
    if not path.parent.is_dir():
        return None
    try:
        return files.read_all(path, NOTE_BYTES_MAX)
    except OSError as error:  # then more is looked at again
        log.warning("compaction_note_unreadable path=%s error=%s", path, error)
        return None


def write_compacted(files: Files, root: Path, offsets: Offsets) -> None:
    """Put the table in RocketMQ's words in the place of the last one, which becomes `.bak`."""
    table = {f"{topic}_{number}": offset for (topic, number), offset in sorted(offsets.items())}
    data = json.dumps({"queueOffsetMap": table}, separators=(",", ":")).encode()
    path = root / COMPACTED
    files.make_directory(path.parent)
    before = files.read_all(path, NOTE_BYTES_MAX)
    if before is not None:
        put_file(files, path.with_name(f"{path.name}.bak"), before)
    put_file(files, path, data)
    files.sync_directory(path.parent)


def read_copied(files: Files, root: Path) -> dict[tuple[str, int], int]:
    """Return the offsets up to which copies are known to be on the disk."""
    data = _read(files, root / COPIED)
    progress = decode_progress(data) if data is not None else None
    return dict(progress.queues) if progress is not None else {}


def write_copied(files: Files, root: Path, offsets: Offsets) -> None:
    """Note what is on the disk."""
    path = root / COPIED
    files.make_directory(path.parent)
    put_file(files, path, encode_progress(Progress(0, 0, offsets)))
    files.sync_directory(path.parent)
