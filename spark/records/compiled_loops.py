"""The passes over records by compiled code, each over memory once; numpy's where one cannot go on.

Importing it fails where nothing was compiled.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from aerobee.remoting.message.layout import RECORD_FIELDS
from aerobee.spark.compiled import record_loops
from aerobee.spark.records.layout import FIELD_AT, Bytes, Ints, Mask, Words
from aerobee.spark.records.numpy_loops import (
    FULL,
    MORE,
    OTHER,
    BlockPart,
    Hints,
    LeftOut,
    NumpyLoops,
    no_hints,
)
from aerobee.spark.records.places import RecordPlaces
from aerobee.spark.records.properties import MARKED, Marked, Properties
from aerobee.spark.records.queue_table import QueueTable

PROPERTY_BYTES_MIN = 4  # name, value and the bytes between and behind them
_QUEUE_ID = RECORD_FIELDS.pick("queue_id")
assert (record_loops.MORE, record_loops.FULL, record_loops.OTHER) == (MORE, FULL, OTHER)


class CompiledLoops(NumpyLoops):
    """What NumpyLoops does, to the same result."""

    walks_parts = True

    def walk(
        self, part: BlockPart, starts: Ints, sizes: Ints, hints: Hints = no_hints
    ) -> tuple[int, int]:
        """Note the records that follow each other, faster than hints could be looked at."""
        data, at, end, base = part
        return record_loops.walk(data, at, end, end, base, starts, sizes)

    def locate(self, records: RecordPlaces) -> tuple[Bytes, Ints]:
        """Where the variable parts are; what is wrong with them, numpy's says."""
        data, starts, sizes = records.data, records.starts, records.sizes
        kinds, places = np.empty(len(starts), np.uint8), np.empty((6, len(starts)), np.int64)
        if record_loops.locate(data, starts, sizes, kinds, places) < 0:
            return super().locate(records)
        return kinds, places

    def gather(self, records: RecordPlaces, name: str, out: Words | Ints) -> None:
        """Read a header field of each record."""
        record_loops.gather(records.data, records.starts, records.kinds, FIELD_AT[name], out)

    def ragged(self, data: Bytes, starts: Ints, lengths: Ints) -> pa.BinaryArray:
        """The cells as one binary array."""
        starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
        offsets = np.empty(len(starts) + 1, np.int32)
        if (total := record_loops.place(lengths, offsets)) < 0:
            raise pa.ArrowInvalid("cells of more than 2 GiB together, or of a negative length")
        filled = pa.allocate_buffer(total)
        if not record_loops.copy(data, starts, lengths, np.frombuffer(filled, np.uint8)):
            raise IndexError("a cell is not in the block")
        buffers = [None, pa.py_buffer(offsets), filled]
        return pa.Array.from_buffers(pa.binary(), len(starts), buffers)

    def host_texts(self, records: RecordPlaces, name: str) -> pa.StringArray:
        """A host as text; numpy's has more than IPv4."""
        if records.kinds.any():
            return super().host_texts(records, name)
        count = len(records)
        offsets = np.empty(count + 1, np.int32)
        room = np.empty(count * record_loops.HOST_TEXT_BYTES_MAX, np.uint8)
        at = int(FIELD_AT[name][0])
        size = record_loops.host_texts(records.data, records.starts, at, offsets, room)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(room).slice(0, size)]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    def marked(self, records: RecordPlaces) -> Marked:
        """Where the values of TAGS and KEYS are."""
        places = np.empty((2 * len(MARKED), len(records)), np.int64)
        starts, lengths = records.properties_at, records.properties_bytes
        if not record_loops.mark(records.data, starts, lengths, b"".join(MARKED), places):
            return super().marked(records)
        return Marked(records.data, places)

    def properties(self, records: RecordPlaces) -> Properties:
        """All properties, copied out; numpy's where names repeat, or there are very many."""
        total = int(records.properties_bytes.sum())
        count_max = (total + len(records)) // PROPERTY_BYTES_MIN + 2
        first = np.empty(len(records) + 1, np.int32)
        name_offsets, value_offsets = np.empty(count_max, np.int32), np.empty(count_max, np.int32)
        names, values = pa.allocate_buffer(total), pa.allocate_buffer(total)
        places = np.empty((2 * len(MARKED), len(records)), np.int64)
        count = record_loops.take_apart(
            records.data,
            records.properties_at,
            records.properties_bytes,
            first,
            name_offsets,
            np.frombuffer(names, np.uint8),
            value_offsets,
            np.frombuffer(values, np.uint8),
            places,
        )
        if count < 0:
            return super().properties(records)
        return Properties(
            first,
            _cells(name_offsets[: count + 1], names),
            _cells(value_offsets[: count + 1], values),
            Marked(records.data, places),
        )

    def topic_table(self, topics: Collection[bytes]) -> Any:
        """The topics' bytes, and slots that lead to them by their hashes."""
        names = np.frombuffer(b"".join(topics) or b"\0", np.uint8)
        places = np.zeros((4, max(1, len(topics))), np.int64)
        slots = np.full(1 << (2 * len(topics) + 2).bit_length(), -1, np.int32)
        at = 0
        for number, topic in enumerate(topics):
            record_loops.place_topic(names, at, len(topic), places, number, slots)
            at += len(topic)
        return names, places, slots

    def known_topics(self, records: RecordPlaces, table: Any) -> Mask:
        """Of each record whether its topic is in a table."""
        found: Bytes = np.empty(len(records), np.uint8)
        names, places, slots = table
        topics = records.topic_at, records.topic_bytes
        record_loops.known_topics(records.data, *topics, names, places, slots, found)
        mask: Mask = found.view(np.bool_)
        return mask

    def number_queues(self, records: RecordPlaces, table: QueueTable) -> Words:
        """The numbers that a table gives the records' queues; it is asked for new ones."""
        numbers: Words = np.empty(len(records), np.int32)
        row = 0
        while row < len(records):
            table.place(record_loops.place_queue)
            row = record_loops.number_queues(
                records.data,
                records.starts,
                records.topic_at,
                records.topic_bytes,
                row,
                table.names,
                table.known,
                len(table.queues),
                table.slots,
                table.seen,
                numbers,
                table.closed,
            )
            if row < 0:
                raise IndexError("a record is not in the block")
            if row < len(records):
                at, size = records.topic_at[row], records.topic_bytes[row]
                name = records.data[at : at + size].tobytes()
                data = memoryview(records.data)  # type: ignore[arg-type]
                (queue_id,) = _QUEUE_ID.unpack_from(data, int(records.starts[row]))
                table.number(name, queue_id)
        return numbers

    def bodies(
        self,
        part: BlockPart,
        left_out: LeftOut,
        known: tuple[int, Any],
        into: tuple[Words, Bytes, int],
    ) -> tuple[int, int, int]:
        """Copy the bodies of wanted records: walked, located, placed and copied in one pass."""
        before, table = known
        return record_loops.bodies(*part, left_out, *into, before, *table)


def _cells(offsets: Words, data: pa.Buffer) -> pa.BinaryArray:
    # without the room behind them, which nobody has filled
    buffers = [None, pa.py_buffer(offsets), data.slice(0, int(offsets[-1]))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
