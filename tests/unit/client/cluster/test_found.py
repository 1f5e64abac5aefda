"""What pulls have found, handed over by a channel, against what any connection makes of it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire import Wire

from aerobee.client.cluster import large_reads
from aerobee.client.cluster.channel import Channel
from aerobee.client.cluster.found import FoundReply, TakesFound
from aerobee.client.cluster.large_reads import LargeReads
from aerobee.client.pulls.raw import read_reply
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import AerobeeError, ConnectionLost
from aerobee.remoting.frame import FRAME_BYTES_MAX, encode_frame
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits

EXT = {"suggestWhichBrokerId": "0", "nextBeginOffset": "33", "minOffset": "1", "maxOffset": "64"}
PULLS = 4


class Taker(TakesFound):
    """Notes what it gets, and what that says."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.kinds: list[type] = []

    def done(self) -> bool:
        return bool(self.said)

    def set_result(self, reply: Any) -> None:
        self.kinds.append(type(reply))
        try:
            raw = read_reply(reply, "there", 0)
        except AerobeeError as error:
            self.said.append(type(error))
        else:
            self.said.append(raw._replace(body=bytes(raw.body)))

    def set_exception(self, exception: Any) -> None:
        self.said.append(type(exception))


NUMBERS = st.integers(-(2**63), 2**63 - 1).map(str) | st.sampled_from(["", "x", "1.5", "007", "-0"])
FIELDS = st.dictionaries(st.sampled_from([*EXT, "topicSysFlag", "remark"]), NUMBERS, max_size=3)
COMMANDS = st.builds(
    Command,
    st.sampled_from([0, 0, 0, 1, 19, 21]),
    FIELDS.map(lambda more: EXT | more),
    st.binary(max_size=200),
    st.integers(1, PULLS + 1),
    st.sampled_from([1, 1, 1, 3]),
    st.none() | st.text(max_size=5),
    codec=st.sampled_from([Codec.JSON, Codec.JSON, Codec.ROCKETMQ]),
)
ODD = st.sampled_from(
    [
        b'{"code":0,"extFields":null,"flag":1,"opaque":1}',
        b'{"code":0,"flag":1,"opaque":2}',
        b'{"opaque":3,"flag":1,"extFields":%b,"code":0,"code":0}' % json.dumps(EXT).encode(),
        b'{"code":0,"extFields":{"nextBeginOffset":"1"},"flag":1,"opaque":4}',
    ]
).map(lambda header: _framed(header, b"records"))


def _framed(header: bytes, body: bytes) -> bytes:
    return (4 + len(header) + len(body)).to_bytes(4) + len(header).to_bytes(4) + header + body


def deliver(reads: LargeReads, data: bytes, connection: Connection) -> None:
    """Put what arrives where it is to land, as a transport does."""
    while data and not connection.closed:
        room = memoryview(reads.get_buffer(-1))
        count = min(len(room), len(data))
        room[:count] = data[:count]
        reads.buffer_updated(count)
        data = data[count:]


def heard(
    kind: type[Connection],
    data: bytes,
    cuts: list[int],
    frame_bytes_max: int = FRAME_BYTES_MAX,
    *,
    large_from: int | None = None,
) -> tuple[list[Any], list[type]]:
    """Return what each pull has heard, from a connection that reads the bytes in these pieces.

    From the `large_from`th piece on they land in memory of the client's own.
    """

    async def read() -> tuple[list[Any], list[type]]:
        connection = kind(lambda *_: None, NetLimits(frame_bytes_max=frame_bytes_max))
        connection.connection_made(Wire())
        takers = [Taker() for _ in range(PULLS)]
        for number, taker in enumerate(takers):
            connection.begin_frame_for(taker, b"", number + 1, 11, 5.0)
        begins = [0, *sorted(cut % (len(data) + 1) for cut in cuts)]
        reads = None
        for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(data)], strict=True)):
            if number == large_from and isinstance(connection, Channel):
                reads = LargeReads(connection)
            if connection.closed:
                continue
            if reads is not None:
                deliver(reads, data[begin:end], connection)
            else:
                connection.data_received(data[begin:end])
        said: list[Any] = [connection.closed, *(taker.said for taker in takers)]
        connection.connection_lost(None)
        return said, [each for taker in takers for each in taker.kinds]

    return asyncio.run(read())


@given(
    st.lists(COMMANDS.map(encode_frame) | ODD, max_size=6).map(b"".join),
    st.lists(st.integers(0, 10_000), max_size=4),
    st.sampled_from([FRAME_BYTES_MAX, FRAME_BYTES_MAX, 320]),
)
def test_each_pull_hears_the_same(data: bytes, cuts: list[int], frame_bytes_max: int) -> None:
    """Usual replies and others, for who waits and for nobody, in whatever pieces they arrive."""
    whole = heard(Connection, data, cuts, frame_bytes_max)
    assert heard(Channel, data, cuts, frame_bytes_max)[0] == whole[0]


@given(
    st.lists(COMMANDS.map(encode_frame) | ODD, max_size=6).map(b"".join),
    st.lists(st.integers(0, 10_000), max_size=6),
    st.sampled_from([FRAME_BYTES_MAX, FRAME_BYTES_MAX, 320]),
    st.integers(0, 3),
    st.sampled_from([(64, 16), (300, 100), (4_096, 512)]),
)
def test_it_hears_the_same_where_reads_land_in_memory_of_its_own(
    data: bytes, cuts: list[int], frame_bytes_max: int, large_from: int, sizes: tuple[int, int]
) -> None:
    """From the begin or from any read on, with memory that has to be moved, and grows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_reads, "MEMORY_BYTES", sizes[0])
        patch.setattr(large_reads, "ROOM_BYTES_MIN", sizes[1])
        whole = heard(Connection, data, cuts, frame_bytes_max)
        assert heard(Channel, data, cuts, frame_bytes_max, large_from=large_from)[0] == whole[0]


def test_memory_grows_with_what_arrives_and_not_with_what_is_announced() -> None:
    """A frame that says it has 16 MiB is not believed; what was large once is given back."""

    async def read() -> list[int]:
        connection = Channel(lambda *_: None)
        connection.connection_made(Wire())
        reads = LargeReads(connection)
        sizes = []
        whole = _framed(b"{}", bytes(4 << 20))
        for piece in (whole[:100], whole[100 : 3 << 20], whole[3 << 20 :]):
            deliver(reads, piece, connection)
            sizes.append(len(memoryview(memoryview(reads.get_buffer(-1)).obj)))
        connection.connection_lost(None)
        return sizes

    announced, arrived, over = asyncio.run(read())
    assert announced == over == large_reads.MEMORY_BYTES
    assert 3 << 20 <= arrived <= 8 << 20


def test_a_frame_above_the_limit_is_refused_in_whatever_pieces_it_arrives() -> None:
    """As on any connection: a limit that held for some reads only would be none."""
    data = encode_frame(Command(0, EXT, bytes(4096), 1, flag=1))
    for cuts in ([], [100]):
        for large_from in (None, 0):
            said, _ = heard(Channel, data, cuts, 4096, large_from=large_from)
            assert said == [True, *[[ConnectionLost]] * PULLS]


def test_what_was_found_is_no_command() -> None:
    """Records are a view of what was read; a reply without any, or a refusal, is a Command."""
    replies = [
        Command(0, EXT, b"records", 1, flag=1),
        Command(0, EXT, b"more", 2, flag=1),
        Command(1, {}, b"why", 3, flag=1, remark="no"),
        Command(19, EXT, b"", 4, flag=1),
    ]
    said, kinds = heard(Channel, b"".join(map(encode_frame, replies)), [])
    assert kinds == [FoundReply, FoundReply, Command, Command]
    assert [each[0].body for each in said[1:3]] == [b"records", b"more"]


async def test_a_request_at_once_does_not_wait_for_the_others() -> None:
    """What was to be sent before leaves before it; nothing is sent twice."""
    wire, connection = Wire(), Channel(lambda *_: None)
    connection.connection_made(wire)
    connection.begin_frame_for(Taker(), b"a", 1, 11, 5.0)
    assert not wire.written
    connection.begin_frame_for(Taker(), b"b", 2, 11, 5.0, at_once=True)
    assert wire.written == b"ab"
    connection.begin_frame_for(Taker(), b"c", 3, 11, 5.0)
    await asyncio.sleep(0)
    assert wire.written == b"abc"
