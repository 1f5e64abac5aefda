"""Types of the compiled module; see record_loops.pyx."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.int32]

HOST_TEXT_BYTES_MAX: int
MORE: int
FULL: int
OTHER: int

def walk(
    data: Bytes, at: int, until: int, length: int, base: int, starts: Ints, sizes: Ints
) -> tuple[int, int]:
    """Note the records from `at` on whose heads stand before `until`; return count and end."""

def locate(data: Bytes, starts: Ints, sizes: Ints, kinds: Bytes, places: Ints) -> int:
    """Find the variable parts of each record; return all kinds together, -1 if one is wrong."""

def bodies(
    data: Bytes,
    at: int,
    length: int,
    base: int,
    left_out: tuple[tuple[bytes, bool], ...],
    offsets: Words,
    out: Bytes,
    row: int,
    known_before: int,
    names: Bytes,
    known: Ints,
    slots: Words,
) -> tuple[int, int, int]:
    """Copy the bodies of the records from `at` on; return the end, the rows, and why no more."""

def place_topic(names: Bytes, at: int, length: int, known: Ints, number: int, slots: Words) -> None:
    """Make a topic known, by a free slot that leads to its number."""

def known_topics(
    data: Bytes,
    topic_at: Ints,
    topic_bytes: Ints,
    names: Bytes,
    known: Ints,
    slots: Words,
    found: Bytes,
) -> int:
    """Note of each record whether its topic is a known one; return how many are not."""

def number_queues(
    data: Bytes,
    starts: Ints,
    topic_at: Ints,
    topic_bytes: Ints,
    row: int,
    names: Bytes,
    known: Ints,
    count: int,
    slots: Words,
    seen: Ints,
    numbers: Words,
    closed: bool,
) -> int:
    """Number the queues of the records from `row` on; return the first one of an unknown queue."""

def place_queue(name: bytes, queue: int, number: int, known: Ints, slots: Words) -> None:
    """Make a free slot lead to a queue, of whose topic `known` gets two words."""

def gather(data: Bytes, starts: Ints, kinds: Bytes, offsets: Ints, out: Words | Ints) -> None:
    """Read a field of each record, as long as those of `out`."""

def place(lengths: Ints, offsets: Words) -> int:
    """Note where cells of these lengths start; return their sum, -1 if it is none."""

def copy(data: Bytes, starts: Ints, lengths: Ints, out: Bytes) -> bool:
    """Copy the cells one behind the other; return False where one is not in the data."""

def host_texts(data: Bytes, starts: Ints, at: int, offsets: Words, out: Bytes) -> int:
    """Write `ip:port` of the IPv4 hosts at `at` in each record; return the bytes."""

def mark(data: Bytes, starts: Ints, lengths: Ints, names: bytes, marked: Ints) -> bool:
    """Find the last values of properties in each record; return False if one is not in the data."""

def take_apart(
    data: Bytes,
    starts: Ints,
    lengths: Ints,
    first: Words,
    name_offsets: Words,
    names: Bytes,
    value_offsets: Words,
    values: Bytes,
    marked: Ints,
) -> int:
    """Copy names and values of all properties; return how many, -1 if it cannot be done."""
