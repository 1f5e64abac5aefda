"""Compiled code makes the messages that Python makes, of whatever bytes, and of fields by hand."""

import copy
import gc
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.client.cluster import decoding
from aerobee.client.cluster.decoding import UnpackLimits, decode_messages, decode_pulled
from aerobee.client.compiled import choice, fields
from aerobee.client.message import MessageQueue
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.compression import compress
from aerobee.remoting.message.properties import find_property
from aerobee.remoting.message.record import Record, encode_record

QUEUE: Final = MessageQueue("t", "broker-a", 0)
BOUNDS: Final = (3, 2**40)
LIMITS: Final = UnpackLimits(4_000, 6_000)
HOSTS_V4: Final = st.sampled_from([("10.0.0.1", 1), ("10.0.0.2", 65_535), ("10.0.0.1", 2)])
HOSTS_V6: Final = st.sampled_from([("fd00::1", 1), ("fd00::1", 2), ("::", 0)])
PROPERTIES: Final = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"TAGS\x01a\x02", b"x" * 1_500, b"k\x01" + b"v" * 32_000 + b"\x02"]),
)

records = pytest.importorskip("aerobee.client.compiled.records") if choice.decode_run else None
needs_compiled = pytest.mark.skipif(records is None, reason="nothing is compiled here")


@st.composite
def made_records(draw: st.DrawFn) -> bytes:
    """A record of any shape that a broker may store; some packed, or holding a batch."""
    flags = draw(st.sampled_from([0, 0, 0, SysFlag.COMPRESSED, decoding.WRAPPED, 1 << 6, 1 << 7]))
    body = draw(st.one_of(st.binary(max_size=80), st.just(b"b" * 3_000)))
    if flags == SysFlag.COMPRESSED and draw(st.booleans()):
        body = compress(body)
    elif flags == decoding.WRAPPED and draw(st.booleans()):
        body = encode_batch([BatchedMessage(1, body, b"a\x01b\x02"), BatchedMessage(2, b"2", b"")])
    born, store = draw(st.booleans()), draw(st.booleans())
    flags |= (SysFlag.BORN_HOST_V6 if born else 0) | (SysFlag.STORE_HOST_V6 if store else 0)
    record = Record(
        topic=draw(st.sampled_from(["t", "t" * 127, "t" * 128, "t" * 300])),
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        queue_offset=draw(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 30)),
        position=draw(st.integers(0, 2**63 - 1)),
        sys_flag=flags,
        born_timestamp=draw(st.integers(-(2**63), 2**63 - 1)),
        born_host=draw(HOSTS_V6 if born else HOSTS_V4),
        store_timestamp=draw(st.integers(0, 2**63 - 1)),
        store_host=draw(HOSTS_V6 if store else HOSTS_V4),
        reconsume_times=draw(st.integers(-(2**31), 2**31 - 1)),
        body=body,
        properties=draw(PROPERTIES),
    )
    return encode_record(record)


def values(message: Any) -> tuple[Any, ...]:
    """Every field, and what is made of them when it is asked for."""
    found = tuple(getattr(message, name) for name in fields.FIELDS)
    lazy = (message.properties, message.tags, message.topic, message.message_id, message.keys)
    return (*found, *lazy, message.born_host, message.store_host)


def outcome(decode: Callable[..., Any], *args: Any, **words: Any) -> Any:
    """What decoding brings, in a form that can be compared."""
    try:
        found = decode(*args, **words)
    except CorruptRecord as error:
        return str(error)
    if isinstance(found, list):
        return [values(message) for message in found]
    return [values(each) for each in found[0]], [values(each) for each in found[1]], found[2]


def check(data: bytes, first: int, behind: int, *, again: bool) -> None:
    """Decode with compiled code and without it."""
    span = (first, behind) if behind > first else None
    ways: list[Any] = []
    for run in (choice.decode_run, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoding, "decode_run", run)
            ways.append(
                (
                    outcome(decode_messages, data, QUEUE, BOUNDS),
                    outcome(
                        decode_pulled, data, QUEUE, BOUNDS, span=span, again=again, limits=LIMITS
                    ),
                )
            )
    assert ways[0] == ways[1]


@needs_compiled
@given(st.lists(made_records(), max_size=6), st.integers(0, 20), st.integers(0, 40), st.booleans())
def test_sound_records_make_the_same_messages(
    pieces: list[bytes], first: int, behind: int, again: bool
) -> None:
    """Both magics, IPv6 hosts, topics of 128 characters and more, packed bodies, batches."""
    check(b"".join(pieces), first, behind, again=again)


@needs_compiled
@given(st.lists(made_records(), min_size=1, max_size=4), st.data())
def test_damaged_records_make_the_same_messages(pieces: list[bytes], data: st.DataObject) -> None:
    """Bytes flipped, most of them in lengths, magic and checksum; or cut off, or put behind."""
    wire = bytearray(b"".join(pieces))
    for _ in range(data.draw(st.integers(1, 3))):
        begin = len(b"".join(pieces[: data.draw(st.integers(0, len(pieces) - 1))]))
        near = st.integers(begin, min(begin + 120, len(wire) - 1))
        at = data.draw(near | st.integers(0, len(wire) - 1))
        wire[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.integers(0, len(wire)) | st.just(len(wire)))
    behind = data.draw(st.just(b"") | st.binary(max_size=120))
    check(
        bytes(wire[:cut]) + behind, 0, data.draw(st.integers(0, 40)), again=data.draw(st.booleans())
    )


@needs_compiled
@given(st.integers(0, 200), st.integers(0, 140), st.integers(-(2**31), 2**31 - 1))
def test_no_length_is_believed(at: int, left: int, length: int) -> None:
    """Any number in the place of any length, and the bytes may end anywhere behind it."""
    record = encode_record(Record(topic="t" * 130, body=b"b" * 20, properties=b"a\x01b\x02"))
    wire = bytearray(record * 2)
    wire[at : at + 4] = length.to_bytes(4, "big", signed=True)
    check(bytes(wire[: len(record) + left]), 0, 2, again=False)


@needs_compiled
def test_many_records_share_what_is_equal() -> None:
    """More than are looked at together, and properties that do not fit beside each other."""
    pieces = [
        encode_record(
            Record(
                topic="t",
                queue_offset=at,
                body=b"%d" % at,
                properties=(b"n\x01%d\x02" % at) * (1 if at % 50 else 1_200),
                born_host=("10.0.0.1", at // 70),
            )
        )
        for at in range(300)
    ]
    check(b"".join(pieces), 0, 300, again=False)
    messages = decode_messages(b"".join(pieces), QUEUE)
    assert [each.properties["n"] for each in messages] == [str(at) for at in range(300)]
    assert {each.born_host[1] for each in messages} == {at // 70 for at in range(300)}


@needs_compiled
def test_a_view_of_a_reply_is_not_kept() -> None:
    """A message that is kept keeps its body and its neighbours' properties, not the reply."""
    data = bytearray(encode_record(Record(topic="t", body=b"body", properties=b"a\x01b\x02")) * 3)
    messages = decode_messages(memoryview(data), QUEUE)  # type: ignore[arg-type]
    data.clear()  # BufferError while a view of it is held
    assert [message.body for message in messages] == [b"body"] * 3


@needs_compiled
def test_only_a_class_without_fields_is_made() -> None:
    """Anything else would be written over, or be without a part of itself."""
    assert records is not None
    for kind in (object, fields.MessageFields, dict):
        with pytest.raises(TypeError):
            records.decode_run(b"", 0, [], kind, QUEUE, None)
    for at in (-1, 2):
        with pytest.raises(ValueError, match="outside"):
            records.decode_run(b"x", at, [], ReceivedMessage, QUEUE, None)


def kinds() -> list[ModuleType]:
    """Both ways to keep the fields, as far as they are there."""
    return [fields] if records is None else [fields, records]


@pytest.fixture(params=kinds(), ids=lambda each: each.__name__.rpartition(".")[2])
def kind(request: pytest.FixtureRequest) -> Any:
    """A class as ReceivedMessage is one, on each of the bases."""

    base: Any = request.param.MessageFields
    names = {"__slots__": (), "__module__": __name__, "__qualname__": "Made"}
    made = type(base)("Made", (base,), names)
    globals()["Made"] = made  # where pickle looks
    return request.param.light(made)


GIVEN: Final = (QUEUE, b"body", 1, 2, 3, 4, 5, 6, 7, 8, b"p", b"12345678", b"87654321")


def test_fields_are_given_by_place_or_by_name(kind: Any) -> None:
    """The defaults of the last four are those of a message that was not pulled."""
    placed, named = kind(*GIVEN), kind(**dict(zip(fields.FIELDS, GIVEN, strict=False)))
    for made in (placed, named):
        assert tuple(getattr(made, name) for name in fields.FIELDS) == (*GIVEN, None, None, 0, None)
    assert repr(placed) == repr(named) and repr(placed).startswith("Made(queue=MessageQueue(topic=")
    with pytest.raises(TypeError):
        kind(*GIVEN[:-1])
    with pytest.raises(TypeError):
        kind(*GIVEN, what=1)


def test_each_field_can_be_set_alone(kind: Any) -> None:
    """Also those which messages of one pull have in common."""
    damage = fields.MessageDamage("reason", True)
    new = (
        QUEUE._replace(queue_id=9), b"other", -1, 3, 4, 5, 6, 7, 8, 9, b"q", b"87654321",
        b"12345678", (1, 2), {"a": "b"}, 10, damage,
    )  # fmt: skip
    for name, value in zip(fields.FIELDS, new, strict=True):
        made = kind(*GIVEN, (0, 9), {"c": "d"}, 4, fields.MessageDamage("before", False))
        other = copy.copy(made)
        before = {each: getattr(made, each) for each in fields.FIELDS}
        setattr(made, name, value)
        assert {each: getattr(made, each) for each in fields.FIELDS} == before | {name: value}
        assert {each: getattr(other, each) for each in fields.FIELDS} == before
    with pytest.raises(AttributeError):
        kind(*GIVEN).what = 1


@needs_compiled
def test_a_message_that_was_pulled_can_be_changed_alone() -> None:
    """Those beside it, which have most of it in common, stay as they are."""
    near: dict[str, Any] = {
        "queue_offset": 7,
        "position": 2**40,
        "store_timestamp": 10**12,
        "flag": 3,
    }
    pieces = [
        encode_record(Record(topic="t", body=b"%d" % at, properties=b"a\x01%d\x02" % at, **near))
        for at in range(3)
    ]
    new: dict[str, Any] = {
        "queue": QUEUE._replace(queue_id=9), "body": b"other", "queue_offset": -(2**63),
        "reconsume_times": 2, "position": 2**63 - 1, "born_timestamp_ms": -1,
        "store_timestamp_ms": 0, "flag": -1, "sys_flag": 5, "body_bytes": 9,
        "raw_properties": b"q" * 70_000, "raw_born_host": b"87654321",
        "raw_store_host": b"12345678", "bounds": (1, 2), "parsed": {"a": "b"}, "held_bytes": 10,
        "damage": fields.MessageDamage("reason", True),
    }  # fmt: skip
    assert set(new) == set(fields.FIELDS)
    for name, value in new.items():
        messages = decode_messages(b"".join(pieces), QUEUE, BOUNDS)
        before = [{each: getattr(one, each) for each in fields.FIELDS} for one in messages]
        setattr(messages[1], name, value)
        before[1][name] = value
        after = [{each: getattr(one, each) for each in fields.FIELDS} for one in messages]
        assert after == before
        assert messages[1].find("a") == (None if name == "raw_properties" else "1")


@needs_compiled
def test_what_all_end_with_is_kept_once() -> None:
    """It is read as if it were each one's, and one that is written to leaves the others alone."""
    of_the_broker = b"MSG_REGION\x01here\x02a\x01last\x02CLUSTER\x01c\x02"
    raws = [b"a\x01%d\x02k\x01%d\x02" % (at, at) + of_the_broker for at in range(100)]
    pieces = [encode_record(Record(topic="t", properties=raw)) for raw in raws]
    messages = decode_messages(b"".join(pieces), QUEUE)
    assert [each.raw_properties for each in messages] == raws
    found = [tuple(map(each.find, ("MSG_REGION", "a", "k", "CLUSTER", "b"))) for each in messages]
    assert found == [("here", "last", str(at), "c", None) for at in range(100)]
    messages[1].raw_properties = b"CLUSTER\x01other\x02"
    messages[2].queue_offset = 7
    assert (messages[1].find("CLUSTER"), messages[1].find("MSG_REGION")) == ("other", None)
    assert (messages[2].raw_properties, messages[3].raw_properties) == (raws[2], raws[3])


@needs_compiled
def test_a_message_takes_little_beside_its_body() -> None:
    """A million that were fetched ahead cost what their bodies cost, and 20 %."""
    record = encode_record(Record(topic="t", body=b"b" * 1024, properties=b"a\x01b\x02"))
    message = decode_messages(record, QUEUE)[0]
    assert message.__sizeof__() == 64


def test_messages_are_themselves_and_can_be_copied(kind: Any) -> None:
    """Two with equal fields are two; the garbage collector has nothing to do with them."""
    made = kind(*GIVEN, (0, 9), {"c": "d"}, 4)
    twin = copy.copy(made)
    again = pickle.loads(pickle.dumps(made))
    for other in (twin, again):
        assert other != made and len({made, other}) == 2
        assert [getattr(other, name) for name in fields.FIELDS] == [
            getattr(made, name) for name in fields.FIELDS
        ]
    assert not gc.is_tracked(made)


def test_a_message_past_its_constructor_ends_no_process(kind: Any) -> None:
    """An error tells that its fields are not there; a struct of msgspec is not even made."""
    for name in ("queue", "raw_born_host", "raw_store_host"):
        with pytest.raises((AttributeError, TypeError)):
            getattr(kind.__new__(kind), name)
    with pytest.raises((AttributeError, TypeError)):
        pickle.dumps(kind.__new__(kind))


PAIRS = st.lists(
    st.sampled_from(
        [b"TAGS", b"TAG", b"ATAGS", b"\x01", b"\x02", b"\x02TAGS\x01", b"a", b"\xff", b"e\xcc"]
    ),
    max_size=9,
)


@given(
    st.lists(PAIRS, min_size=1, max_size=3),
    PAIRS | st.just([b"\x02a\x01b\x02TAGS\x01c\x02"]),
    st.sampled_from(["TAGS", "a", "", "ä"]),
)
def test_one_property_is_found_as_in_the_text_of_all(
    several: list[list[bytes]], ending: list[bytes], name: str
) -> None:
    """Also where it comes twice, has no value, is a part of another, or no text.

    And where all end alike, as a broker writes its own pairs behind each message's.
    """
    raws = [b"".join((*pieces, *ending)) for pieces in several]
    wire = b"".join(encode_record(Record(topic="t", properties=raw)) for raw in raws)
    for message, raw in zip(decode_messages(wire, QUEUE), raws, strict=True):
        assert message.raw_properties == raw
        assert message.find(name) == find_property(raw, name)


@given(st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 9)), max_size=5), st.integers(-2, 5))
def test_what_is_asked_of_many(several: list[tuple[int, int]], first: int) -> None:
    """Whether offsets rise and follow each other, and how much is held."""
    messages = [
        ReceivedMessage(QUEUE, b"", offset, *GIVEN[3:], None, None, held)
        for offset, held in several
    ]
    for each in kinds():
        if messages and not isinstance(messages[0], each.MessageFields):
            continue
        for behind in (first - 1, first, first + 2, 9):
            assert choice.rises(messages, first, behind) == fields.rises(messages, first, behind)
        assert choice.measure(messages) == fields.measure(messages)
