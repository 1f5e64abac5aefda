"""Makes the files of a store in which millions of messages wait, faster than they can be sent.

Every message is a copy of one that a broker has stored, but for place, key and time. What is
written is what RocketMQ has: log, queue, timer log and check, without a note of ours. So the first
start is that of a store which changes hands.
"""

import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from aerobee.remoting.message.layout import BLANK_MAGIC, RECORD_FIELDS
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.timers.codecs import (
    BLANK_UNIT_BYTES,
    CHECK_AT,
    CHECK_FILE_BYTES,
    DEFAULT,
    UNIT_BYTES,
    UNIT_FIELDS,
    TimerCheck,
    encode_blank_unit,
    encode_check,
)
from aerobee.storage.layout import (
    CONSUME_QUEUE,
    ENTRY_BYTES,
    TIMER_CHECK,
    TIMER_LOG,
    TIMER_WHEEL,
    TIMERS,
    file_name,
)

LOG_BYTES: Final = 1 << 30
QUEUE_BYTES: Final = 6_000_000
TIMER_LOG_BYTES: Final = 100 << 20
STEP: Final = 200_000
DIGITS: Final = 10 ** np.arange(12, -1, -1, dtype=np.int64)

Longs = np.ndarray[Any, np.dtype[np.int64]]


def make(store: Path, dues_ms: Longs, now_s: int) -> None:
    """Put messages that are due then, in this order, into a stopped store that has one such.

    Its key is 32 times K; notes of what the store had are removed.
    """
    for path in (*store.glob("aerobee.*"), store / "checkpoint", *(store / "index").glob("*")):
        path.unlink(missing_ok=True)
    (store / TIMERS).unlink(missing_ok=True)
    places, size = _make_log(store / "commitlog", dues_ms)
    _make_queue(store / CONSUME_QUEUE / TIMER_TOPIC / "0", places, size)
    _make_timers(store, places, size, dues_ms, now_s)


def _make_log(folder: Path, dues_ms: Longs) -> tuple[Longs, int]:
    """Write the records; return their positions, and the size of each."""
    with (folder / file_name(0)).open("rb") as file:
        size = int.from_bytes(file.read(4))
        file.seek(0)
        record = file.read(size)
    for path in folder.iterdir():
        path.unlink()
    template = np.frombuffer(record, np.uint8)
    key_at = record.index(b"K" * 32)
    due_at = record.index(b"TIMER_DELIVER_MS\x01") + 17
    out_at = record.index(b"TIMER_OUT_MS\x01") + 13
    at = {name: RECORD_FIELDS.at(name) for name in ("queue_offset", "position")}
    each = (LOG_BYTES - 8) // size
    numbers = np.arange(len(dues_ms), dtype=np.int64)
    places = numbers // each * LOG_BYTES + numbers % each * size
    for begin in range(0, len(dues_ms), each):
        with (folder / file_name(begin // each * LOG_BYTES)).open("wb") as file:
            for low in range(begin, min(begin + each, len(dues_ms)), STEP):
                rows = slice(low, min(low + STEP, begin + each, len(dues_ms)))
                count = len(dues_ms[rows])
                block = np.tile(template, (count, 1))
                for name, values in (("queue_offset", numbers), ("position", places)):
                    block[:, at[name] : at[name] + 8] = _bytes(values[rows])
                block[:, key_at + 16 : key_at + 32] = _digits(numbers[rows] + 10**12, 16)
                block[:, due_at : due_at + 13] = _digits(dues_ms[rows], 13)
                block[:, out_at : out_at + 13] = _digits((dues_ms[rows] - 1) // 1000 * 1000, 13)
                file.write(block.tobytes())
            if begin + each < len(dues_ms):
                rest = LOG_BYTES - each * size
                file.write(rest.to_bytes(4) + BLANK_MAGIC.to_bytes(4))
            file.truncate(LOG_BYTES)
    return places, size


def _make_queue(folder: Path, places: Longs, size: int) -> None:
    """Write the entries; all have the tags code of the first one."""
    (first,) = sorted(folder.iterdir())[:1]
    entries = np.tile(np.frombuffer(first.read_bytes()[:ENTRY_BYTES], np.uint8), (len(places), 1))
    entries[:, :8] = _bytes(places)
    each = QUEUE_BYTES // ENTRY_BYTES
    for begin in range(0, len(places), each):
        with (folder / file_name(begin * ENTRY_BYTES)).open("wb") as file:
            file.write(entries[begin : begin + each].tobytes())
            file.truncate(QUEUE_BYTES)


def _make_timers(store: Path, places: Longs, size: int, dues_ms: Longs, now_s: int) -> None:
    """Write units, each with the one before it of its second, and the check."""
    (store / TIMER_WHEEL).unlink(missing_ok=True)
    for path in (store / TIMER_LOG).iterdir():
        path.unlink()
    count, each = len(places), (TIMER_LOG_BYTES - BLANK_UNIT_BYTES) // UNIT_BYTES
    numbers = np.arange(count, dtype=np.int64)
    at = numbers // each * TIMER_LOG_BYTES + numbers % each * UNIT_BYTES
    seconds = (dues_ms - 1) // 1000
    order = np.argsort(seconds, kind="stable")
    same = np.concatenate(([False], seconds[order][1:] == seconds[order][:-1]))
    previous = np.full(count, -1, np.int64)
    previous[order[1:]] = np.where(same[1:], at[order[:-1]], -1)
    units = np.zeros(count, np.dtype(UNIT_FIELDS.columns()))
    units["size"], units["previous"], units["magic"] = UNIT_BYTES, previous, DEFAULT
    units["written_ms"], units["delay_ms"] = now_s * 1000, (seconds - now_s) * 1000
    units["position"], units["record_bytes"] = places, size
    units["after_ms"] = dues_ms - seconds * 1000
    data = memoryview(units.tobytes())
    starts = range(0, count * UNIT_BYTES, UNIT_BYTES)
    units["check"] = np.fromiter((zlib.crc32(data[i : i + CHECK_AT]) for i in starts), np.uint32)
    for begin in range(0, count, each):
        name = file_name(begin // each * TIMER_LOG_BYTES)
        with (store / TIMER_LOG / name).open("wb") as file:
            file.write(units[begin : begin + each].tobytes())
            if begin + each < count:
                file.write(encode_blank_unit(TIMER_LOG_BYTES - each * UNIT_BYTES))
            file.truncate(TIMER_LOG_BYTES)
    end = int(at[-1]) + UNIT_BYTES
    check = TimerCheck(now_s * 1000, end, count, count, 0, now_s * 1000, 1)
    (store / TIMER_CHECK).write_bytes(encode_check(check).ljust(CHECK_FILE_BYTES, b"\0"))


def _bytes(values: Longs) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return values.astype(">i8").view(np.uint8).reshape(len(values), 8)


def _digits(values: Longs, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    digits = np.full((len(values), count), ord("0"), np.uint8)
    digits[:, count - 13 :] = values[:, None] // DIGITS % 10 + ord("0")
    return digits
