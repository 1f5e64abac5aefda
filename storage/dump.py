"""Prints any file of a store as text: `python -m aerobee.storage.dump FILE...`.

Log files and ConsumeQueue files are told apart by their directories, the rest by its name. Exit
codes: 0 printed, 1 a file is damaged, 2 a file cannot be read or is of no kind we know.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aerobee.remoting.extras import exit_without

if __name__ == "__main__":
    exit_without("broker", "python -m aerobee.storage.dump")

from aerobee.remoting.errors import CorruptRecord, RequestError, system_error
from aerobee.remoting.message.batch import split_batch
from aerobee.remoting.message.compression import decompress
from aerobee.remoting.message.layout import BLANK_MAGIC, BLANK_SIZE, WRAPPED
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import BLANK, Record, decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.units import units_of
from aerobee.storage.features.dedup.snapshot import ROW, decode_snapshot
from aerobee.storage.features.delays.notes import decode_page
from aerobee.storage.features.index.checking import shape_of
from aerobee.storage.features.index.files import read_header
from aerobee.storage.features.index.note import decode_index_note
from aerobee.storage.features.index.shown import sums_lines
from aerobee.storage.features.index.slices import ENTRY as INDEX_ENTRY
from aerobee.storage.features.timers.shown import check_lines, note_lines, unit_lines, wheel_lines
from aerobee.storage.layout import (
    ABORT,
    BATCH_UNITS,
    BOOT_NOTE,
    CHECKPOINT,
    COMPACTED,
    COMPACTION_LOG,
    COMPACTION_QUEUE,
    CONFIG,
    COPIED,
    DAMAGE,
    DEDUP,
    DELAYED,
    ENTRY_BYTES,
    INDEX,
    INDEX_NOTE,
    INDEX_SUMS,
    LOCK,
    PROGRESS,
    TIMER_CHECK,
    TIMER_LOG,
    TIMER_WHEEL,
    TIMERS,
    is_file_name,
)
from aerobee.storage.log.damage import decode_damage
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.progress import decode_progress
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.recovery.batch_units.units import units_of as batch_units_of

BODY_SHOWN_BYTES: Final = 64
CHUNK_BYTES: Final = 8 << 20
UNPACKED_BYTES_MAX: Final = 64 << 20  # of a batch that is shown message by message


class NotAStoreFile(Exception):
    """The file's name is none that a store has."""


def dump(path: Path) -> Iterator[str]:
    """Yield the lines that describe one file; CorruptRecord at the place where it is damaged."""
    if is_file_name(path.name):
        if path.parent.name.isdecimal() and BATCH_UNITS in path.parts:
            return dump_batch_units(path)
        if Path(COMPACTION_QUEUE).name in path.parts:
            return dump_units(path)
        if path.parent.name == TIMER_LOG:
            return unit_lines(path)
        if path.parent.name.isdecimal() and Path(COMPACTION_LOG).name in path.parts:
            return dump_log(path)
        if path.parent.name.isdecimal():
            return dump_queue(path)
        return dump_log(path)
    known = {
        CHECKPOINT: _dump_checkpoint,
        PROGRESS: _dump_progress,
        Path(COPIED).name: _dump_progress,
        Path(COMPACTED).name: _dump_json,
        BOOT_NOTE: _dump_boot_note,
        DELAYED: _dump_delayed,
        DEDUP: _dump_dedup,
        DAMAGE: _dump_damage,
        INDEX_NOTE: _dump_index_note,
        TIMERS: note_lines,
        TIMER_WHEEL: wheel_lines,
        Path(TIMER_CHECK).name: check_lines,
        ABORT: _dump_text,
        LOCK: _dump_text,
    }
    if (reader := known.get(path.name)) is not None:
        return reader(path)
    if path.parent.name == INDEX and path.name.isdecimal():
        return _dump_index(path)
    if path.parent.name == INDEX_SUMS and path.name.isdecimal():
        return sums_lines(path)
    if path.parent.name == CONFIG or path.suffix in (".json", ".bak"):
        return _dump_json(path)
    raise NotAStoreFile(
        f"{path} is no file of a store: expected a name of 20 digits, {CHECKPOINT}, {PROGRESS},"
        f" {BOOT_NOTE}, {DELAYED}, {DEDUP}, {DAMAGE}, {INDEX_NOTE}, {TIMERS}, {TIMER_WHEEL},"
        f" {ABORT}, {LOCK}, or a file of {CONFIG}/, {INDEX}/ or {INDEX_SUMS}/"
    )


def dump_log(path: Path) -> Iterator[str]:
    """Print each record on a line, and below one that holds a batch each of its messages."""
    base, position = int(path.name), 0
    with path.open("rb") as file:
        while True:
            file.seek(position)
            chunk = file.read(CHUNK_BYTES)
            at = 0
            while (size := _record_size(chunk, at)) > 0 and at + size <= len(chunk):
                yield from _log_lines(chunk, at, base + position + at)
                at += size
            if at == 0:
                if size > len(chunk) == CHUNK_BYTES:  # one record larger than the chunk
                    file.seek(position)
                    chunk = file.read(min(size, 1 << 30))
                    if len(chunk) == size:
                        yield from _log_lines(chunk, 0, base + position)
                        position += size
                        continue
                yield from _log_end(chunk, base + position)
                return
            position += at


def dump_units(path: Path) -> Iterator[str]:
    """Print each unit of a compaction topic's queue on a line."""
    for number, unit in enumerate(units_of(path.read_bytes())):
        yield (
            f"{number:>10}  offset {unit.offset} at {unit.position}, {unit.size} bytes,"
            f" stored {_time(unit.store_timestamp)}, tags code {unit.tags_code}"
        )


def _record_size(chunk: bytes, at: int) -> int:
    if at + BLANK.size > len(chunk):
        return 0
    size, magic = BLANK.unpack_from(chunk, at)
    return 0 if magic in (0, BLANK_MAGIC) else int(size)


def _log_lines(chunk: bytes, at: int, position: int) -> Iterator[str]:
    record = decode_record(chunk, at)
    warning = "" if record.position == position else f" WRONG POSITION {record.position}"
    yield _record_line(record, position) + warning
    if record.sys_flag & WRAPPED == WRAPPED:
        yield from _batch_lines(record)


def _batch_lines(record: Record) -> Iterator[str]:
    """The messages of a batch as a consumer gets them."""
    try:
        body = decompress(record.body, record.sys_flag, bytes_max=UNPACKED_BYTES_MAX)
        messages = split_batch(body)
    except (CorruptRecord, RequestError) as error:
        yield f"{'':>14}  {error}"
        return
    for offset, message in enumerate(messages, record.queue_offset):
        yield (
            f"{'':>14}  offset {offset} flag {message.flag}"
            f" [{_shown(message.properties)}] {_body(message.body)}"
        )


def _log_end(chunk: bytes, position: int) -> Iterator[str]:
    if len(chunk) < BLANK.size:
        return
    size, magic = BLANK.unpack_from(chunk)
    if magic == BLANK_MAGIC:
        yield f"{position:>14}  blank, {size} bytes to the end of the file"
    elif size == 0 and magic == 0:
        yield f"{position:>14}  zeros: the records end here"
    else:
        decode_record(chunk)  # says what is wrong
        raise CorruptRecord(f"record at {position}: cut off")


def _record_line(record: Record, position: int) -> str:
    return (
        f"{position:>14}  {record.total_size} bytes {record.topic}-{record.queue_id}"
        f" offset {record.queue_offset} stored {_time(record.store_timestamp)}"
        f" born {_time(record.born_timestamp)} by {record.born_host[0]}:{record.born_host[1]}"
        f" flag {record.flag} sysFlag {record.sys_flag} retries {record.reconsume_times}"
        f" [{_shown(record.properties)}] {_body(record.body)}"
    )


def _shown(properties: bytes) -> str:
    return " ".join(f"{name}={value}" for name, value in parse_properties(properties).items())


def _body(body: bytes) -> str:
    more = "..." if len(body) > BODY_SHOWN_BYTES else ""
    return f"body {len(body)} {body[:BODY_SHOWN_BYTES]!r}{more}"


def _time(milliseconds: int) -> str:
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dump_batch_units(path: Path) -> Iterator[str]:
    """Print each unit of a batch queue on a line."""
    for number, unit in enumerate(batch_units_of(path.read_bytes())):
        yield (
            f"{number:>10}  offset {unit.first_offset} to {unit.end - 1} at {unit.position},"
            f" {unit.size} bytes, stored {_time(unit.store_timestamp)}, tags code {unit.tags_code}"
        )


def dump_queue(path: Path) -> Iterator[str]:
    """Print each entry of a ConsumeQueue file on a line."""
    offset, blanks = int(path.name) // ENTRY_BYTES, 0
    with path.open("rb") as file:
        while data := file.read(ENTRY_BYTES * 4096):
            for position, size, tags in ENTRY.iter_unpack(
                data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
            ):
                if size == BLANK_SIZE:
                    blanks += 1
                else:
                    if blanks:
                        yield f"{offset - blanks:>12}  {blanks} blank entries"
                        blanks = 0
                    if size <= 0:
                        yield f"{offset:>12}  zeros: the entries end here"
                        return
                    yield f"{offset:>12}  position {position} size {size} tags {tags}"
                offset += 1


def _dump_checkpoint(path: Path) -> Iterator[str]:
    checkpoint = read_checkpoint(Files(), path.parent)
    yield f"log until      {_time(checkpoint.log_timestamp)}"
    yield f"queues until   {_time(checkpoint.queue_timestamp)}"
    yield f"index until    {_time(checkpoint.index_timestamp)}"
    yield f"master flushed {checkpoint.master_flushed_position}"
    yield f"confirmed      {checkpoint.confirm_position}"
    yield f"queues flushed {checkpoint.queue_position}"


def _dump_progress(path: Path) -> Iterator[str]:
    progress = decode_progress(path.read_bytes())
    if progress is None:
        raise CorruptRecord("wrong length or checksum; recovery will ignore it")
    yield f"flushed and dispatched to {progress.position}, stored {_time(progress.timestamp)}"
    for (topic, queue_id), max_offset in sorted(progress.queues.items()):
        yield f"{topic}-{queue_id} max offset {max_offset}"


def _dump_boot_note(path: Path) -> Iterator[str]:
    boot_note = BootNote(Files(), path.parent)
    position, unheard = boot_note.read(), boot_note.unheard()
    if position is None:
        yield "of an earlier boot, or torn: it proves nothing"
        return
    yield f"written to {position} in this boot"
    if unheard is not None and unheard.log is not None:
        yield f"log on the disk to {unheard.log}; what follows was under way, or may have been"
    if unheard is not None and unheard.queues is not None:
        yield f"queues on the disk to {unheard.queues}; what follows was under way, likewise"


def _dump_delayed(path: Path) -> Iterator[str]:
    notes = decode_page(path.read_bytes())
    if not notes:
        raise CorruptRecord("no note with a right checksum; the log will be read instead")
    for note in notes:
        yield f"deliveries before {note.position}:"
        for level, offset in sorted(note.offsets.items()):
            yield f"    level {level} next offset {offset}"


def _dump_dedup(path: Path) -> Iterator[str]:
    known = decode_snapshot(path.read_bytes())
    if known is None:
        raise CorruptRecord("the checksum is wrong; the log will be read instead")
    for key, position, seen_ms, number in ROW.iter_unpack(known.rows):
        topic = known.topics.get(number, f"topic {number}")
        yield f"{position:>14}  {topic} key {key.hex().upper()} at {_time(seen_ms)}"


def _dump_damage(path: Path) -> Iterator[str]:
    spans = decode_damage(path.read_bytes())
    if not spans:
        raise CorruptRecord("wrong length or checksum; the next start will search again")
    for span in spans:
        yield f"{span.begin} to {span.end}: {span.reason}, kept in {span.set_aside or 'its place'}"
        for topic, queue_id, first, last in span.queues:
            yield f"    {topic}-{queue_id} offset {first} to {last} lost"


def _dump_index_note(path: Path) -> Iterator[str]:
    note = decode_index_note(path.read_bytes())
    if note is None:
        raise CorruptRecord("wrong length or checksum; the index files say what they can")
    yield f"keys of records from {note.begin} to {note.position} are on the disk"
    yield f"{note.file_name or 'no file'} entries before {note.count}, {note.slots} slots"


def _dump_index(path: Path) -> Iterator[str]:
    """Print the head of an index file, and each entry on a line."""
    header = read_header(Files(), path)
    yield (
        f"{header.count - 1} entries in {header.slots_used} slots, from"
        f" {_time(header.begin_ms)} at {header.begin_position} to {_time(header.end_ms)} at"
        f" {header.end_position}"
    )
    shape = shape_of(Files(), path.parent.parent)
    if shape is None:
        yield "how many slots the file has is not known here: aerobee.index would say it"
        return
    with path.open("rb") as file:
        file.seek(shape.entries_at + INDEX_ENTRY.size)
        for number in range(1, min(header.count, shape.entries)):
            data = file.read(INDEX_ENTRY.size)
            if len(data) < INDEX_ENTRY.size:
                raise CorruptRecord(f"entry {number}: the file ends")
            key_hash, position, seconds, previous = INDEX_ENTRY.unpack(data)
            yield (
                f"{number:>10}  hash {key_hash} position {position}"
                f" second {seconds} before it {previous}"
            )


def _dump_text(path: Path) -> Iterator[str]:
    yield path.read_bytes()[:200].decode("utf-8", "replace")


def _dump_json(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8", "replace")
    try:
        yield json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:  # fastjson's own dialect: keys without quotes
        yield text


def main(arguments: list[str] | None = None) -> int:
    """Run from a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m aerobee.storage.dump",
        description="Print files of a store: log, queues, checkpoints, configuration.",
        epilog="Exit codes: 0 printed, 1 a file is damaged, 2 a file cannot be read.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    worst = 0
    options = parser.parse_args(arguments)
    for path in options.files:
        if len(options.files) > 1:
            print(f"== {path}")
        try:
            for line in dump(path):
                print(line)
        except BrokenPipeError:  # `| head` has seen enough
            sys.stderr.close()
            return worst
        except CorruptRecord as error:
            print(f"{path}: {error}", file=sys.stderr)
            worst = max(worst, 1)
        except (OSError, NotAStoreFile) as error:
            print(system_error(error) if isinstance(error, OSError) else error, file=sys.stderr)
            worst = 2
    return worst


if __name__ == "__main__":
    sys.exit(main())
