"""The passes over records in numpy and Arrow, without a loop over them: what each pass gives."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import (
    HOST_BITS,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    PROPERTIES_LENGTH_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.spark.records.cells import gathered
from aerobee.spark.records.hosts import coded_addresses, coded_words
from aerobee.spark.records.layout import (
    FIELD_AT,
    FIELD_BYTES,
    HEADER_BYTES,
    HOST_BITS_SHIFT,
    SYS_FLAG_LAST_AT,
    Bytes,
    Ints,
    Mask,
    Words,
    unaligned,
)
from aerobee.spark.records.places import RecordPlaces
from aerobee.spark.records.properties import Marked, Properties, find_marked, take_apart
from aerobee.spark.records.queue_table import QueueTable

Hints = Callable[[int, int], Ints]
"""Log positions between two, ascending, where records may start."""

LeftOut = tuple[tuple[bytes, bool], ...]
"""Topics with True, and with False how topics begin, whose records are not wanted."""

MORE, FULL, OTHER = range(3)  # why `bodies` took no more: see there
_PREFIX = RECORD_FIELDS.pick("total_size", "magic", "position")


def no_hints(low: int, high: int) -> Ints:
    """Where nothing tells."""
    return np.empty(0, np.int64)


class BlockPart(NamedTuple):
    """The bytes `data[at:end]` of a block, whose first byte has the log position `base`."""

    data: Bytes
    at: int
    end: int
    base: int


class Contradiction(CorruptRecord):
    """Lengths in a record that contradict its size; which of some records, and where in the log."""

    def __init__(self, reason: str, row: int = 0, position: int = 0) -> None:
        super().__init__(reason)
        self.row = row
        self.position = position


class NumpyLoops:
    """Each method is one pass over records of a block; it keeps nothing."""

    walks_parts = False
    """Whether `walk` is quicker over small parts of a block, for each of which it is called."""

    def walk(
        self, part: BlockPart, starts: Ints, sizes: Ints, hints: Hints = no_hints
    ) -> tuple[int, int]:
        """Note the records of a part that follow each other from its beginning on.

        Returns how many there are, and where in the block the next would start. A body may hold
        what looks like a record: only the chain is proof. Hints make the common case a handful of
        comparisons; where they leave a gap or contradict the chain, it is walked record by record.
        """
        data, at, filled, base = part
        heads = hints(base + at, base + filled - PREFIX_BYTES + 1) - base
        lengths = unaligned(data, ">i4")[heads].astype(np.int64)
        magics = unaligned(data, ">u4")[heads + MAGIC_AT]
        good = (magics == MAGIC_V1) | (magics == MAGIC_V2)
        good &= (lengths >= RECORD_BYTES_MIN) & (heads + lengths <= filled)
        good &= unaligned(data, ">i8")[heads + POSITION_AT] == heads + base
        if not good.all():
            heads, lengths = heads[good], lengths[good]
        count, end = 0, at
        breaks = np.flatnonzero(heads[1:] != heads[:-1] + lengths[:-1]) + 1
        for low, high in pairwise([0, *breaks.tolist(), len(heads)] if len(heads) else ()):
            head = int(heads[low])
            more, end = _walk(data, end, head, filled, base, starts[count:], sizes[count:])
            count += more
            if end < head:
                return count, end
            low += int(np.searchsorted(heads[low:high], end))  # hints inside a record were none
            if low < high and heads[low] == end:
                to = count + high - low
                starts[count:to], sizes[count:to] = heads[low:high], lengths[low:high]
                count, end = to, int(heads[high - 1] + lengths[high - 1])
        more, end = _walk(data, end, filled, filled, base, starts[count:], sizes[count:])
        return count + more, end

    def locate(self, records: RecordPlaces) -> tuple[Bytes, Ints]:
        """The kinds of records' headers, and in six rows where their variable parts are.

        These are the bodies, topics and properties, each with its length. Raises Contradiction
        where a length does not fit: it is checked before it is used as an index.
        """
        data, starts, sizes, headers = records.data, records.starts, records.sizes, records.headers
        flags: Bytes = headers[:, SYS_FLAG_LAST_AT]
        kinds: Bytes = (flags & np.uint8(HOST_BITS)) >> np.uint8(HOST_BITS_SHIFT)
        places = np.empty((6, len(starts)), np.int64)
        body_at, body, topic_at, topic, properties_at, properties = places

        def require(good: Mask, part: str) -> None:
            if not good.all():
                row = int(np.argmin(good))
                position = int(unaligned(data, ">i8")[starts[row] + POSITION_AT])
                raise Contradiction(
                    f"record at log position {position}: the length of its {part}"
                    f" does not fit the record's {int(sizes[row])} bytes",
                    row,
                    position,
                )

        halves = unaligned(data, ">i2")
        ends = starts + sizes
        np.add(starts, HEADER_BYTES[kinds] if kinds.any() else HEADER_BYTES[0], out=body_at)
        body[:] = _column(headers, kinds, FIELD_AT["body_bytes"], ">i4")
        length_at = body_at + body
        v2 = _column(headers, kinds, FIELD_AT["magic"], ">u4") == MAGIC_V2
        np.add(length_at, v2 + 1 if v2.any() else 1, out=topic_at)
        require((body >= 0) & (topic_at + PROPERTIES_LENGTH_BYTES <= ends), "body")
        topic[:] = data[length_at]
        if v2.any():
            topic[v2] = halves[length_at[v2]]
        require((topic > 0) & (topic_at + topic + PROPERTIES_LENGTH_BYTES <= ends), "topic")
        length_at = topic_at + topic
        np.add(length_at, PROPERTIES_LENGTH_BYTES, out=properties_at)
        properties[:] = halves[length_at]
        require((properties >= 0) & (properties_at + properties == ends), "properties")
        return kinds, places

    def header_field(self, records: RecordPlaces, name: str) -> npt.NDArray[Any]:
        """A header field of each record, as long as it stands there."""
        long = FIELD_BYTES[name][0] == np.dtype(np.int64).itemsize
        found: npt.NDArray[Any] = np.empty(len(records), np.int64 if long else np.int32)
        self.gather(records, name, found)
        return found

    def gather(self, records: RecordPlaces, name: str, out: Words | Ints) -> None:
        """Read a header field of each record, as long as `out`'s."""
        out[:] = _column(records.headers, records.kinds, FIELD_AT[name], f">i{out.itemsize}")

    def ragged(self, data: Bytes, starts: Ints, lengths: Ints) -> pa.BinaryArray:
        """The cells `data[start:start + length]` as one binary array.

        `data` needs `INLINE_BYTES` behind the start of its last cell. Starts may come in any
        order; all cells together must stay under 2 GiB.
        """
        return gathered(data, starts, lengths)

    def host_texts(self, records: RecordPlaces, name: str) -> pa.StringArray:
        """A host of every record as text: `10.0.0.7:40312` or `[2001:db8::7]:40312`."""
        return self.coded_hosts(records, name).dictionary_decode()

    def coded_hosts(self, records: RecordPlaces, name: str) -> pa.DictionaryArray:
        """The same as a dictionary of those that there are."""
        if not records.kinds.any():
            return coded_words(self.header_field(records, name))
        at = records.starts + FIELD_AT[name][records.kinds]
        return coded_addresses(gathered(records.data, at, FIELD_BYTES[name][records.kinds]))

    def marked(self, records: RecordPlaces) -> Marked:
        """Where the values of TAGS and KEYS are."""
        return find_marked(self._property_cells(records))

    def properties(self, records: RecordPlaces) -> Properties:
        """All properties, taken apart."""
        return take_apart(self._property_cells(records))

    def _property_cells(self, records: RecordPlaces) -> pa.BinaryArray:
        return self.ragged(records.data, records.properties_at, records.properties_bytes)

    def topic_table(self, topics: Collection[bytes]) -> Any:
        """What `known_topics` and `bodies` look up these topics in."""
        return frozenset(topics)

    def known_topics(self, records: RecordPlaces, table: Any) -> Mask:
        """Of each record whether its topic is in a table that `topic_table` has made."""
        cells = self.ragged(records.data, records.topic_at, records.topic_bytes)
        names = cells.dictionary_encode()  # the few names that there are, each judged once
        good = [name in table for name in names.dictionary.to_pylist()]
        mask: Mask = np.array(good, np.bool_)[names.indices.to_numpy()]
        return mask

    def number_queues(self, records: RecordPlaces, table: QueueTable) -> Words:
        """The numbers that a table gives the records' queues, -1 without; it counts them."""
        numbers: Words = np.full(len(records), -1, np.int32)
        names = self.ragged(records.data, records.topic_at, records.topic_bytes)
        topics = names.dictionary_encode()
        queue_ids = self.header_field(records, "queue_id").astype(np.int64)
        offsets = self.header_field(records, "queue_offset")
        both = topics.indices.to_numpy().astype(np.int64) << 32 | queue_ids & 0xFFFFFFFF
        _, firsts, which = np.unique(both, return_index=True, return_inverse=True)
        for at in np.argsort(firsts).tolist():
            row = int(firsts[at])
            number = table.number(names[row].as_py(), int(queue_ids[row]))
            if number >= 0:
                rows = np.flatnonzero(which == at)
                rows = rows[table.wanted(number, offsets[rows])]
                numbers[rows] = number
                table.count(number, offsets[rows])
        return numbers

    def bodies(
        self,
        part: BlockPart,
        left_out: LeftOut,
        known: tuple[int, Any],
        into: tuple[Words, Bytes, int],
    ) -> tuple[int, int, int]:
        """Copy the bodies of the records that follow each other in a part, of wanted topics.

        `into` are the offsets and the bytes of a column, and how many rows it has; `known` is the
        log position before which topics count only if they are in a table (`topic_table`).
        Returns the end, how many rows there are then, and why no more: MORE where the next record
        goes on behind the bytes, FULL where its body has no room, OTHER where no whole record
        stands, or what stands there is to be read by blocks; here that is everything.
        """
        return part.at, into[2], OTHER


def _walk(
    data: Bytes, at: int, until: int, filled: int, base: int, starts: Ints, sizes: Ints
) -> tuple[int, int]:
    """Note the records from `at` on whose heads stand before `until`, one by one."""
    begins, lengths = [], []
    unpack = _PREFIX.unpack_from
    view = memoryview(data)  # type: ignore[arg-type]
    limit = min(until, filled - PREFIX_BYTES + 1)
    while at < limit:
        size, magic, position = unpack(view, at)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_BYTES_MIN or position != base + at:
            break
        if at + size > filled:
            break
        begins.append(at)
        lengths.append(size)
        at += size
    count = len(begins)
    starts[:count], sizes[:count] = begins, lengths
    return count, at


def _column(headers: Bytes, kinds: Bytes, offsets: Ints, dtype: str) -> npt.NDArray[Any]:
    """A field of each row of headers; `offsets` says where, by kind."""
    if not kinds.any():
        at = int(offsets[0])
        plain: npt.NDArray[Any] = headers[:, at : at + int(dtype[-1])].view(dtype)[:, 0]
        return plain
    places = np.arange(len(headers)) * headers.shape[1] + offsets[kinds]
    found: npt.NDArray[Any] = unaligned(headers.reshape(-1), dtype)[places]
    return found
