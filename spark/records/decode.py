"""Records of a log block to Arrow columns: only what the schema asks for is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from aerobee.remoting.message.tags import java_string_hash
from aerobee.spark.records import loops
from aerobee.spark.records.cells import one_code, text, with_nulls
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints
from aerobee.spark.records.properties import Marked
from aerobee.spark.records.unpacking import unpacked_parts

_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000

_NUMBERS = {  # columns that are one header field: (field, numpy type)
    "queue_id": ("queue_id", np.int32),
    "queue_offset": ("queue_offset", np.int64),
    "sys_flag": ("sys_flag", np.int32),
    "reconsume_times": ("reconsume_times", np.int32),
    "commit_log_offset": ("position", np.int64),
    "flag": ("flag", np.int32),
    "body_crc": ("body_crc", np.int32),
    "body_bytes": ("body_bytes", np.int32),
    "record_bytes": ("total_size", np.int32),
    "prepared_transaction_offset": ("prepared_transaction_offset", np.int64),
}


class Decoder:
    """Turns chunks of records into RecordBatches of one schema.

    `decompress` asks for compressed bodies to be unpacked where they can be; else they stay as
    stored. `verify_crc` asks for the bodies' checksums to be compared. `broker` is what the column
    of that name says. That and the hosts may be dictionaries in the schema (`cells.coded`).
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        decompress: bool = False,
        verify_crc: bool = False,
        broker: str = "",
    ) -> None:
        self.schema = schema
        self.broker = broker
        self._decompress = decompress
        self._verify_crc = verify_crc
        self._columns = [(field, _reader(self, field.name)) for field in schema]
        self._mapped = any(pa.types.is_map(kind) for kind in schema.types)

    @property
    def stored_bodies_alone(self) -> bool:
        """Whether nothing but the bodies is asked for, just as they are stored."""
        plain = not self._decompress and not self._verify_crc
        return plain and self.schema.names == ["body"] and self.schema.types == [pa.binary()]

    @property
    def verifies(self) -> bool:
        """Whether each body is compared with its checksum, whatever columns are asked for."""
        return self._verify_crc

    def rows(
        self, chunks: Iterable[Records | pa.RecordBatch], damage: DamagePolicy
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the chunks' records, one each, and of the damage that has been met by then.

        Records whose bodies do not have the right checksums are damage too, if anybody asked.
        Chunks that are rows already are passed on.
        """
        for chunk in chunks:
            if not isinstance(chunk, Records):
                yield chunk
            elif len(records := self.checked(chunk, damage)):
                yield from self.batches(records)
            yield from damage.rows(self.schema)
        yield from damage.rows(self.schema)

    def checked(self, records: Records, damage: DamagePolicy) -> Records:
        """The records without those whose bodies have other checksums; all, if nobody asked."""
        if not self._verify_crc:
            return records
        wrong = _wrong_bodies(records)
        for row in wrong.tolist():
            position = records.position(row)
            damage.note(
                position,
                f"record at log position {position}: its body has another checksum than the"
                " producer's broker noted",
            )
        return records.only(np.delete(np.arange(len(records)), wrong)) if len(wrong) else records

    def batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Rows of the records, one each, in their order; cut where unpacked bodies grow large."""
        if self._decompress and "body" in self.schema.names:
            for part, bodies in unpacked_parts(records):
                yield self.decode(part, bodies)
        else:
            yield self.decode(records)

    def decode(self, records: Records, bodies: pa.Array | None = None) -> pa.RecordBatch:
        """One RecordBatch with a row per record, in their order, the bodies as stored or given."""
        chunk = Chunk(records, mapped=self._mapped, bodies=bodies)
        arrays = [read(chunk, field) for field, read in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class Chunk:
    """The records being decoded and what several of their columns share.

    `mapped` says that all properties are wanted, each by itself; `bodies` are theirs, if they are
    not to be those that are stored.
    """

    def __init__(
        self, records: Records, *, mapped: bool = False, bodies: pa.Array | None = None
    ) -> None:
        self.records = records
        self.bodies = bodies
        self._properties = loops.chosen.properties(records) if mapped else None

    def property_cells(self) -> pa.BinaryArray:
        """The raw properties of each record."""
        records = self.records
        return loops.chosen.ragged(records.data, records.properties_at, records.properties_bytes)

    def find(self, name: bytes) -> pa.StringArray:
        """The value of TAGS or of KEYS per record, null without it."""
        marked = self._marked
        at, lengths = marked.of(name)
        missing = lengths < 0
        if not missing.any():
            return text(loops.chosen.ragged(marked.data, at, lengths))
        cells = loops.chosen.ragged(marked.data, at, np.maximum(lengths, 0))
        return with_nulls(text(cells), missing)

    def as_map(self, kind: pa.MapType) -> pa.MapArray:
        """All properties as one map per record."""
        assert self._properties is not None, "all are wanted"
        return self._properties.as_map(kind)

    @cached_property
    def _marked(self) -> Marked:
        """Where TAGS and KEYS are."""
        found = self._properties
        return loops.chosen.marked(self.records) if found is None else found.marked


Reader = Callable[[Chunk, pa.Field], pa.Array]


def _reader(decoder: Decoder, name: str) -> Reader:
    if name in _NUMBERS:
        return _number
    readers: dict[str, Reader] = {
        "topic": _topic,
        "store_timestamp": _timestamp,
        "born_timestamp": _timestamp,
        "tags": lambda chunk, field: chunk.find(b"TAGS"),
        "keys": lambda chunk, field: chunk.find(b"KEYS"),
        "properties": _properties,
        "body": _body,
        "born_host": _host,
        "store_host": _host,
        "tags_code": _tags_code,
        "broker": lambda chunk, field: _broker(decoder.broker, chunk, field),
        "_corrupt": lambda chunk, field: pa.nulls(len(chunk.records), field.type),
    }
    return readers[name]


def _number(chunk: Chunk, field: pa.Field) -> pa.Array:
    name, kind = _NUMBERS[field.name]
    return pa.array(chunk.records.field(name, kind))


def _timestamp(chunk: Chunk, field: pa.Field) -> pa.Array:
    milliseconds = chunk.records.field(field.name, np.int64)
    if field.type == pa.int64():
        return pa.array(milliseconds)
    # a wild timestamp becomes the farthest one that fits rather than a wrapped, plausible one
    if len(milliseconds):
        low, high = int(milliseconds.min()), int(milliseconds.max())
        if max(-low, high) > _TIMESTAMP_MS_MAX:
            np.clip(milliseconds, -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX, out=milliseconds)
    milliseconds *= 1000
    return pa.array(milliseconds).view(field.type)


def _topic(chunk: Chunk, field: pa.Field) -> pa.Array:
    records = chunk.records
    return text(loops.chosen.ragged(records.data, records.topic_at, records.topic_bytes))


def _body(chunk: Chunk, field: pa.Field) -> pa.Array:
    if chunk.bodies is not None:
        return chunk.bodies
    records = chunk.records
    return loops.chosen.ragged(records.data, records.body_at, records.body_bytes)


def _properties(chunk: Chunk, field: pa.Field) -> pa.Array:
    if field.type == pa.binary():
        return chunk.property_cells()
    return chunk.as_map(field.type)


def _host(chunk: Chunk, field: pa.Field) -> pa.Array:
    if pa.types.is_dictionary(field.type):
        return loops.chosen.coded_hosts(chunk.records, field.name)
    return loops.chosen.host_texts(chunk.records, field.name)


def _broker(name: str, chunk: Chunk, field: pa.Field) -> pa.Array:
    repeat = one_code if pa.types.is_dictionary(field.type) else repeated
    return repeat(name, len(chunk.records))


def _tags_code(chunk: Chunk, field: pa.Field) -> pa.Array:
    tags = chunk.find(b"TAGS").dictionary_encode()
    hashes = pa.array([java_string_hash(tag) for tag in tags.dictionary.to_pylist()], field.type)
    return hashes.take(tags.indices).fill_null(0)


def repeated(word: str, count: int) -> pa.StringArray:
    """One text in every row."""
    return pa.repeat(pa.scalar(word), count)


def _wrong_bodies(records: Records) -> Ints:
    """Whose bodies have another checksum; Python's loop is a small part of what that costs."""
    data = memoryview(records.data)  # type: ignore[arg-type]
    places = zip(records.body_at.tolist(), records.body_bytes.tolist(), strict=True)
    found = np.fromiter(
        (crc32(data[at : at + size]) for at, size in places), np.uint32, len(records)
    )
    stored = records.field("body_crc", np.int32).view(np.uint32)
    return np.flatnonzero((found ^ stored) & np.uint32(0x7FFFFFFF))
