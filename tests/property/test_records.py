"""Records, batches, properties and compressed bodies: round trips and hostile bytes."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.batch import BatchedMessage, encode_batch, split_batch
from aerobee.remoting.message.compression import CODECS, compress, decompress
from aerobee.remoting.message.message_id import offset_message_id, parse_offset_message_id
from aerobee.remoting.message.properties import find_property, format_properties, parse_properties
from aerobee.remoting.message.record import (
    Record,
    decode_record,
    encode_record,
    iter_records,
    record_bytes,
)
from aerobee.remoting.message.tags import java_string_hash

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PORT = st.integers(0, 65535)
HOST = st.tuples(
    st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6, network="2001:db8::/32").map(str),
    PORT,
)
V6_BITS = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
NAMES = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=9)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record, its IPv6 bits as its hosts need them."""
    born, store = draw(HOST), draw(HOST)
    bits = (SysFlag.BORN_HOST_V6 if ":" in born[0] else 0) | (
        SysFlag.STORE_HOST_V6 if ":" in store[0] else 0
    )
    return Record(
        topic=draw(NAMES | NAMES.map(lambda name: name * 20)),
        queue_id=draw(INT32),
        flag=draw(INT32),
        queue_offset=draw(INT64),
        position=draw(INT64),
        sys_flag=draw(INT32) & ~V6_BITS | bits,
        born_timestamp=draw(INT64),
        born_host=born,
        store_timestamp=draw(INT64),
        store_host=store,
        reconsume_times=draw(INT32),
        prepared_transaction_offset=draw(INT64),
        body=draw(st.binary(max_size=60)),
        properties=draw(st.binary(max_size=60)),
    )


def content(record: Record) -> tuple[object, ...]:
    """Return all fields but the two that encoding computes."""
    return tuple(getattr(record, name) for name in Record.__struct_fields__[:-2])


@given(st.lists(records(), max_size=4))
def test_records_survive_a_round_trip(sent: list[Record]) -> None:
    """Written back to back they are read back, each as long as was foretold."""
    wire = b"".join(map(encode_record, sent))
    got = list(iter_records(wire))
    assert [content(record) for record in got] == [content(record) for record in sent]
    for record in got:
        assert record.total_size == record_bytes(
            len(record.body),
            len(record.topic.encode()),
            len(record.properties),
            sys_flag=record.sys_flag,
        )


@given(records(), st.data())
def test_a_damaged_record_is_never_read_beyond_its_end(record: Record, data: st.DataObject) -> None:
    """One byte changed: another record, or CorruptRecord; the neighbours' bytes stay out."""
    wire = bytearray(encode_record(record))
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] = data.draw(st.integers(0, 255))
    neighbour = b"\xee" * 300
    try:
        damaged = decode_record(bytes(wire) + neighbour)
    except CorruptRecord:
        return
    assert damaged.total_size <= len(wire) + len(neighbour)
    assert len(damaged.body) <= damaged.total_size


@given(st.binary(max_size=200))
def test_random_bytes_are_no_records(data: bytes) -> None:
    """They are refused, however they begin."""
    for prefix in (b"", encode_record(Record(topic="t"))[:8]):
        try:
            list(iter_records(prefix + data))
        except CorruptRecord:
            continue
        assert not data and not prefix


@given(
    st.lists(
        st.builds(BatchedMessage, INT32, st.binary(max_size=50), st.binary(max_size=50)),
        max_size=5,
    )
)
def test_batches_survive_a_round_trip(messages: list[BatchedMessage]) -> None:
    """As many messages come out as went in."""
    assert split_batch(encode_batch(messages)) == messages


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_as_a_batch(data: bytes) -> None:
    """Or they are a batch, whose parts make up all of the bytes."""
    try:
        messages = split_batch(data)
    except RequestError:
        return
    assert len(encode_batch(messages)) == len(data)


@given(st.dictionaries(NAMES, NAMES, max_size=5))
def test_properties_survive_a_round_trip(properties: dict[str, str]) -> None:
    """All of them at once, and each one looked for."""
    raw = format_properties(properties)
    assert parse_properties(raw) == parse_properties(raw.encode()) == properties
    for name, value in properties.items():
        assert find_property(raw.encode(), name) == value


@given(st.text("ab\x01\x02", max_size=30), st.text("ab", min_size=1, max_size=2))
def test_finding_one_property_agrees_with_reading_all(raw: str, name: str) -> None:
    """In any string, well-formed or not."""
    assert find_property(raw.encode(), name) == parse_properties(raw).get(name)


@given(st.binary(max_size=500), st.sampled_from(sorted(CODECS)), st.integers(1, 9))
def test_compression_survives_a_round_trip(body: bytes, codec: str, level: int) -> None:
    """With exactly as many bytes allowed as there are."""
    packed = compress(body, codec, level)
    sys_flag = SysFlag.COMPRESSED | CODECS[codec]
    assert decompress(packed, sys_flag, bytes_max=max(1, len(body))) == body


@given(st.binary(max_size=100), INT32, st.sampled_from(sorted(CODECS)), st.data())
def test_hostile_compressed_bodies(
    noise: bytes, sys_flag: int, codec: str, data: st.DataObject
) -> None:
    """Noise, and a real body with one byte changed: bytes within the limit, or CorruptRecord."""
    packed = bytearray(compress(noise * 3, codec))
    if packed:
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    for body, flags in ((noise, sys_flag | 1), (bytes(packed), CODECS[codec] | 1)):
        with suppress(CorruptRecord):
            assert len(decompress(body, flags, bytes_max=1000)) <= 1000


@given(HOST, INT64)
def test_message_ids_survive_a_round_trip(host: tuple[str, int], position: int) -> None:
    """Any address, any position."""
    message_id = offset_message_id(*host, position)
    assert parse_offset_message_id(message_id) == (*host, position)


@given(st.text(max_size=80))
def test_hashes_are_java_s(text: str) -> None:
    """The definition, written down once more with Python's own integers."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = 31 * value + int.from_bytes(units[at : at + 2], "big")
    value = (value + 2**31) % 2**32 - 2**31
    assert java_string_hash(text) == value
