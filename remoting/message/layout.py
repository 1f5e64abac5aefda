"""Where each number of a record, a queue entry, a batch and a frame stands: the only table of it.

All are big-endian and without gaps. Structs, numpy's columns and the constants of compiled code
(`deploy/compiled_layout.py`) are made from these tables, and files of our own have a `Layout` in
the module that writes them. Source: MessageDecoder, CommitLog, ConsumeQueue, RemotingCommand and
MessageDecoder.decodeMessages of RocketMQ 5.5.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

_NUMPY: Final = {"h": ">i2", "i": ">i4", "I": ">u4", "q": ">i8"}


class Layout:
    """Fields in a row; each has a name and a kind, as `struct` writes it (`i`, `q`, `8s`).

    One of kind `12x` is a gap, which no struct has a value for.
    """

    def __init__(self, **fields: str) -> None:
        self.kinds: Final = fields
        self.size: Final = struct.calcsize(">" + "".join(fields.values()))

    def at(self, name: str) -> int:
        """Return the place of a field, in bytes from the first one."""
        names = list(self.kinds)
        return struct.calcsize(">" + "".join(list(self.kinds.values())[: names.index(name)]))

    def behind(self, name: str) -> int:
        """Return the place behind a field."""
        return self.at(name) + struct.calcsize(">" + self.kinds[name])

    def run(self, first: str | None = None, last: str | None = None) -> struct.Struct:
        """Return the fields from one to another, the latter with them, as a struct."""
        names = list(self.kinds)
        begin = names.index(first) if first else 0
        end = names.index(last) + 1 if last else len(names)
        return struct.Struct(">" + "".join(list(self.kinds.values())[begin:end]))

    def pick(self, *names: str) -> struct.Struct:
        """Return some fields, in their order; what lies before and between is padding."""
        text, end = ">", 0
        for name in names:
            text += f"{self.at(name) - end}x{self.kinds[name]}"
            end = self.behind(name)
        return struct.Struct(text)

    def lumped(self, first: str, last: str) -> "Layout":
        """Return the layout in which the fields from one to another are one of bytes, `first`."""
        names = list(self.kinds)
        within = names[names.index(first) + 1 : names.index(last) + 1]
        kinds = {name: kind for name, kind in self.kinds.items() if name not in within}
        return Layout(**kinds | {first: f"{self.behind(last) - self.at(first)}s"})

    def columns(self, names: Sequence[str] = ()) -> Any:
        """Return the dict that `numpy.dtype` takes: all fields, or some of them at their places."""
        names = list(names or self.kinds)
        return {
            "names": names,
            "formats": [_numpy(self.kinds[name]) for name in names],
            "offsets": [self.at(name) for name in names],
            "itemsize": self.size if len(names) == len(self.kinds) else self.behind(names[-1]),
        }


def _numpy(kind: str) -> str:
    return _NUMPY.get(kind) or f"V{kind[:-1]}"


MAGIC_V1: Final = 0xDAA320A7  # one byte for the topic's length
MAGIC_V2: Final = 0xDAA320AB  # two bytes, used where the topic is longer than 127 bytes
BLANK_MAGIC: Final = 0xCBD43194  # fills the end of a log file that is too short for the next record

HOST_V4_BYTES: Final = 8  # of an address: 4 or 16, and the port as an int32
HOST_V6_BYTES: Final = 20
BORN_HOST_V6_BIT: Final = 1 << 4  # of the sys flag
STORE_HOST_V6_BIT: Final = 1 << 5
HOST_BITS: Final = BORN_HOST_V6_BIT | STORE_HOST_V6_BIT
WRAPPED: Final = 1 << 6 | 1 << 7  # likewise, both of a record that holds a batch


def _record(born_host_bytes: int, store_host_bytes: int) -> Layout:
    return Layout(
        total_size="i",
        magic="I",
        body_crc="I",
        queue_id="i",
        flag="i",
        queue_offset="q",
        position="q",
        sys_flag="i",
        born_timestamp="q",
        born_host=f"{born_host_bytes}s",
        store_timestamp="q",
        store_host=f"{store_host_bytes}s",
        reconsume_times="i",
        prepared_transaction_offset="q",
        body_bytes="i",
    )


RECORD_SHAPES: Final = {
    bits: _record(
        HOST_V6_BYTES if bits & BORN_HOST_V6_BIT else HOST_V4_BYTES,
        HOST_V6_BYTES if bits & STORE_HOST_V6_BIT else HOST_V4_BYTES,
    )
    for bits in (0, BORN_HOST_V6_BIT, STORE_HOST_V6_BIT, HOST_BITS)
}
"""A record up to its body, by the two IPv6 bits of the sys flag. Behind these fields stand the
body, the topic's length (a byte, or two) and topic, the properties' length (two bytes) and
properties."""

RECORD_FIELDS: Final = RECORD_SHAPES[0]
"""... of two IPv4 hosts; up to the born host all records are alike."""

TOPIC_LENGTH_BYTES_MIN: Final = 1
PROPERTIES_LENGTH_BYTES: Final = 2
RECORD_BYTES_MIN: Final = RECORD_FIELDS.size + TOPIC_LENGTH_BYTES_MIN + PROPERTIES_LENGTH_BYTES
"""All fields, and nothing in them."""

POSITION_AT: Final = RECORD_FIELDS.at("position")
PREFIX_BYTES: Final = RECORD_FIELDS.behind("position")
"""What is read of a record to know whether it is one: size, magic, ... and its own position."""
HOSTS_AT: Final = RECORD_FIELDS.at("born_host")
HOSTS_BYTES: Final = {
    bits: fields.at("body_bytes") - HOSTS_AT for bits, fields in RECORD_SHAPES.items()
}
"""From the born host up to the body's length, by the two IPv6 bits."""
BODY_BYTES_AT: Final = {bits: fields.at("body_bytes") for bits, fields in RECORD_SHAPES.items()}
"""Where the body's length stands."""
BODY_LENGTH_BYTES: Final = 4
AROUND_BYTES: Final = HOSTS_AT + BODY_LENGTH_BYTES + PROPERTIES_LENGTH_BYTES
"""Of a record all but hosts, body, topic with its length, and properties."""
MAGIC_AT: Final = RECORD_FIELDS.at("magic")
MAGIC_LAST_AT: Final = RECORD_FIELDS.behind("magic") - 1
"""The byte in which the two magic numbers differ."""

BLANK_FIELDS: Final = Layout(rest_bytes="i", magic="I")
"""What closes a log file: how many bytes are left in it, and BLANK_MAGIC."""

ENTRY_FIELDS: Final = Layout(position="q", size="i", tags_code="q")
"""An entry of a queue: where its message is in the log, how long the record, what filters by."""

BLANK_SIZE: Final = 0x7FFF_FFFF
"""The size in entries that stand for no message."""

BATCH_FIELDS: Final = Layout(total_size="i", magic="I", body_crc="I", flag="i", body_bytes="i")
"""A message in the body of a batch up to its own body."""

FRAME_FIELDS: Final = Layout(frame_bytes="I", header_word="I")
"""A frame of the wire up to its header; the word is the codec, 8 bits, and the header's length."""
