"""The files of what waits as text, a line for each thing that they have."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from aerobee.remoting.errors import CorruptRecord
from aerobee.storage.disk.files import Files
from aerobee.storage.features.timers.codecs import (
    DELETE,
    PRECISION_MS,
    ROLL,
    UNIT_BYTES,
    Slot,
    Unit,
    decode_check,
    decode_slot,
    decode_unit,
)
from aerobee.storage.features.timers.note import decode_note
from aerobee.storage.features.timers.wheel import Wheel


def note_lines(path: Path) -> Iterator[str]:
    """Yield what the note says; CorruptRecord where it is none."""
    note = decode_note(path.read_bytes())
    if note is None:
        raise CorruptRecord("wrong length or checksum; RocketMQ's files will be read instead")
    yield (
        f"done before {_second(note.read_s)}, deliveries from there on lie behind {note.position};"
        f" messages before {note.queue_offset} have units, which end at {note.log_end}"
    )
    for data in note.slots.values():
        yield f"    {_slot_line(decode_slot(data))}"
    yield f"    {note.counts.decode('utf-8', 'replace')}"


def wheel_lines(path: Path) -> Iterator[str]:
    """Yield each slot of the wheel that was ever used, in the order of their places."""
    wheel = Wheel(Files(), path)
    try:
        for slot in wheel.stored():
            yield _slot_line(slot)
    finally:
        wheel.close()


def unit_lines(path: Path) -> Iterator[str]:
    """Yield each unit of a file of the timer log."""
    base = int(path.name)
    with path.open("rb") as file:
        at = 0
        while (unit := decode_unit(file.read(UNIT_BYTES))) is not None:
            yield f"{base + at:>14}  {_unit_line(unit)}"
            at += UNIT_BYTES


def check_lines(path: Path) -> Iterator[str]:
    """Yield how far `timercheck` says that a broker was."""
    check = decode_check(path.read_bytes()[: UNIT_BYTES * 4])
    yield (
        f"done before {_second(check.read_ms // PRECISION_MS)}; messages before"
        f" {check.queue_offset} have units, which end at {check.log_position}"
    )


def _slot_line(slot: Slot) -> str:
    return f"{_second(slot.time_s)}  {slot.count} wait, units {slot.first} to {slot.last}"


def _unit_line(unit: Unit) -> str:
    what = "takes one back" if unit.magic & DELETE else "waits"
    again = ", to be put aside again then" if unit.magic & ROLL else ""
    return (
        f"record at {unit.position}, {unit.record_bytes} bytes, {what} for {_second(unit.time_s)}"
        f"{again}; before it {unit.previous}"
    )


def _second(time_s: int) -> str:
    try:
        return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"second {time_s}"
