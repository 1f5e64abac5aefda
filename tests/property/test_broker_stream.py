"""The broker's read loop against any slicing of a stream, and against bytes that are no stream."""

import asyncio
import struct
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records

QUICK = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


FIRST = b"what made the topic"


def with_broker(test: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    """Run `test` with a broker of its own; hypothesis and asyncio fixtures do not mix."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as root:
            async with running_broker(Path(root), mappedFileSizeCommitLog="8388608") as broker:
                connection, wire = connect(broker)
                connection.data_received(encode_frame(send_command(FIRST)))
                await until(wire.replies, what="topic T is known")
                await test(broker)

    asyncio.run(run())


commands = st.one_of(
    st.builds(
        send_command,
        st.binary(min_size=1, max_size=300),
        queue_id=st.integers(0, 3),
        properties=st.sampled_from(
            [
                "UNIQ_KEY\x01A1\x02TAGS\x01TagA\x02",
                "TAGS\x01é\x02",
                "UNIQ_KEY\x01A\x02DELAY\x010\x02",
            ]
        ),
    ),
    st.builds(pull_command, st.integers(0, 3)),
    st.builds(send_command, topic=st.sampled_from(["bad topic", "SELF_TEST_TOPIC"])),
    st.just(Command(code=RequestCode.GET_MAX_OFFSET, ext={"topic": "T", "queueId": "0"})),
    st.just(Command(code=31_000)),
)


@QUICK
@given(
    wanted=st.lists(st.tuples(commands, st.sampled_from([0, 1, 2])), max_size=25),
    cuts=st.lists(st.integers(1, 4000), max_size=20),
)
def test_any_split_of_a_stream_gives_the_same_replies(
    wanted: list[tuple[Command, int]], cuts: list[int]
) -> None:
    """Every request gets its reply, once, and the log holds every message, once, in order."""
    stream = [
        msgspec.structs.replace(command, opaque=number, codec=codec)
        for number, (command, codec) in enumerate(wanted, 1)
    ]

    async def test(broker: Broker) -> None:
        data = b"".join(encode_frame(command) for command in stream)
        pieces, at = [], 0
        for cut in cuts:
            pieces.append(data[at : at + cut])
            at += cut
        pieces.append(data[at:])
        connection, wire = connect(broker)
        await feed(connection, wire, [piece for piece in pieces if piece])
        replies = wire.replies()
        assert sorted(reply.opaque for reply in replies) == [c.opaque for c in stream]
        codes = {reply.opaque: reply.code for reply in replies}
        stored = [
            (int(c.ext["e"]), bytes(c.body))
            for c in stream
            if c.code == RequestCode.SEND_MESSAGE_V2 and codes[c.opaque] == ResponseCode.SUCCESS
        ]
        for queue_id in range(4):
            connection, wire = connect(broker)
            found: list[bytes] = []
            while True:
                wire.written.clear()
                command = pull_command(len(found), queue_id=queue_id)
                await feed(connection, wire, [encode_frame(command)])
                (reply,) = wire.replies()
                if reply.code != ResponseCode.SUCCESS:
                    break
                found += [bytes(record.body) for record in iter_records(bytes(reply.body))]
            before = [FIRST] if queue_id == 0 else []
            assert found == before + [body for queue, body in stored if queue == queue_id]

    with_broker(test)


LONE_SURROGATE = (
    b'{"code":310,"extFields":{"a":"g","b":"T","c":"x","d":"4","e":"0","f":"0","g":"1",'
    b'"h":"0","i":"UNIQ_KEY\\u0001A\\u0002\\ud800","j":"0","m":"false"},"opaque":1}'
)

hostile_headers = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [
            b'{"code":310,"extFields":null}',
            b'{"code":310,"extFields":{"e":{}}}',
            LONE_SURROGATE,
            b'{"code":310,"opaque":99999999999999999999}',
            b'{"code":11}',
            b'{"code":"11"}',
            b"[" * 5000,
            b'{"code":34,"a":' + b"[" * 2000,
            b'{"code":320,"extFields":{"m":"true"}}',
            b"\xff" * 40,
        ]
    ),
)


@QUICK
@given(
    frames=st.lists(
        st.one_of(
            st.binary(max_size=400),
            st.tuples(
                st.integers(0, 3), hostile_headers, st.binary(max_size=100), st.integers(-9, 9)
            ),
        ),
        max_size=8,
    )
)
def test_hostile_bytes_end_in_a_reply_or_a_closed_connection(
    frames: list[bytes | tuple[int, bytes, bytes, int]],
) -> None:
    """Whatever one peer sends, the next one is served, and only it pays."""

    async def test(broker: Broker) -> None:
        connection, wire = connect(broker)
        for item in frames:
            if isinstance(item, tuple):
                codec, header, body, lie = item
                word = codec << 24 | max(0, len(header) + lie)
                item = struct.pack(">II", 4 + len(header) + len(body), word) + header + body
            await feed(connection, wire, [item])
        other, other_wire = connect(broker)
        await feed(other, other_wire, [encode_frame(send_command(b"still here"))])
        (reply,) = other_wire.replies()
        assert reply.code == ResponseCode.SUCCESS
        assert connection.reading.frame.held_bytes <= 16 << 20

    with_broker(test)
