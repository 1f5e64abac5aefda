"""Acknowledgements read in bulk reach their sends, and nothing else is taken for one."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from support.servers.net_servers import Servers

from aerobee.client.cluster.channel import Channel
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, Codec, Command
from aerobee.remoting.errors import CallTimedOut, ConnectionLost
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.headers.acks import Ack
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits

SEND = RequestCode.SEND_MESSAGE_V2
FIELDS = {"msgId": "ID", "queueId": "2", "queueOffset": "7", "transactionId": "T"}


def reply(opaque: int, code: int = 0, ext: dict[str, str] = FIELDS, codec: int = 0) -> bytes:
    """Return the frame of a reply."""
    return encode_frame(Command(code, ext, b"", opaque, FLAG_RESPONSE, codec=codec))


@pytest.fixture
async def start_server() -> AsyncIterator[Servers]:
    """Let a test start servers."""
    async with Servers() as servers:
        yield servers


@pytest.fixture
async def channel(start_server: Servers) -> AsyncIterator[Channel]:
    """A connection to a server that never answers; tests hand replies to `data_received`."""
    server = await start_server(lambda connection, command: None)
    pool = ConnectionPool(kind=Channel)
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    assert isinstance(connection, Channel)
    yield connection
    await pool.close()


def begin(
    channel: Channel, *opaques: int, brief: bool = True, timeout_s: float = 5
) -> list[asyncio.Future[object]]:
    """Send requests with these numbers."""
    frame = encode_frame(Command(999))
    return [channel.begin_frame(frame, at, SEND, timeout_s, brief=brief) for at in opaques]


@pytest.mark.parametrize("cut", [1, 3, 7, 50, 1000])
async def test_replies_in_any_order_and_pieces_find_their_sends(channel: Channel, cut: int) -> None:
    """Each future gets its own, however the bytes were split."""
    futures = begin(channel, *range(1, 21))
    data = b"".join(
        reply(opaque, ext=FIELDS | {"queueOffset": str(100 + opaque)})
        for opaque in (*range(20, 10, -1), *range(1, 11))
    )
    for at in range(0, len(data), cut):
        channel.data_received(data[at : at + cut])
    acks = [future.result() for future in futures]
    assert [ack.extFields.queueOffset for ack in acks if isinstance(ack, Ack)] == [*range(101, 121)]
    assert channel.calls_waiting == 0


async def test_other_replies_between_acknowledgements_are_read_in_full(channel: Channel) -> None:
    """A refusal, a reply to something else, one with a body, one in another codec."""
    sends, (other,) = begin(channel, 1, 2, 3, 4, 5), begin(channel, 6, brief=False)
    body = encode_frame(Command(0, FIELDS, b"body", 4, FLAG_RESPONSE))
    channel.data_received(
        reply(1)
        + reply(2, code=13)
        + reply(6)
        + reply(3, codec=Codec.MSGPACK)
        + body
        + reply(5, ext={"msgId": "ID", "queueId": "x", "queueOffset": "7"})
    )
    kinds = [type(future.result()) for future in sends]
    assert kinds == [Ack, Command, Command, Command, Command]
    answer = other.result()
    assert isinstance(answer, Command)
    assert answer.ext == FIELDS
    refusal = sends[1].result()
    assert isinstance(refusal, Command)
    assert refusal.code == 13


async def test_late_and_double_acknowledgements_do_no_harm(channel: Channel) -> None:
    """Of a cancelled send, of a timed-out one, of none: the next one is served all the same."""
    given_up, late = begin(channel, 1), begin(channel, 2, timeout_s=0.01)
    given_up[0].cancel()
    with pytest.raises(CallTimedOut, match="no reply to code 310"):
        await late[0]
    (wanted,) = begin(channel, 3)
    channel.data_received(reply(1) + reply(2) + reply(77) + reply(3) + reply(3))
    assert isinstance(wanted.result(), Ack | Command)
    assert (channel.calls_waiting, channel.closed) == (0, False)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\x0c\0\0\0\x08" + b'{"code":',
        b"\0\0\0\x08\0\0\0\x04nope",
        b"\xff\xff\xff\xff\xff\xff\xff\xff!",
        b"\0\0\0\x08\0\0\0\xffabcd!",
        b"\x7f\xff\xff\xff\x00\x00\x00\x01x",
    ],
)
async def test_garbage_behind_acknowledgements_closes(channel: Channel, garbage: bytes) -> None:
    """What came before it counts; the rest ends with the connection."""
    first, second = begin(channel, 1, 2)
    channel.data_received(reply(1) + garbage)
    assert isinstance(first.result(), Ack)
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(second, 5)


async def test_a_request_of_the_peer_is_no_acknowledgement(channel: Channel) -> None:
    """Without the response flag it goes to the handler, whatever its fields and number say."""
    (send,) = begin(channel, 1)
    got: list[Command] = []
    channel.handler = lambda connection, command: got.append(command)
    channel.data_received(encode_frame(Command(0, FIELDS, b"", 1)))
    assert [command.code for command in got] == [0]
    assert not send.done()
    send.cancel()


async def test_replies_are_read_while_the_broker_takes_nothing(start_server: Servers) -> None:
    """Both waiting until the other one reads would be the end of it."""
    block = bytes(1_000_000)

    def answer_at_length(connection: Connection, command: Command) -> None:
        connection.send(command.reply(0, {}, block))

    server = await start_server(answer_at_length)
    limits = NetLimits(write_pause_bytes=32_768, write_resume_bytes=16_384)
    pool = ConnectionPool(kind=Channel, limits=limits)
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    calls = [connection.begin(1, {}, block, 20) for _ in range(40)]
    replies = await asyncio.wait_for(asyncio.gather(*calls), 20)
    assert [len(each.body) for each in replies] == [len(block)] * 40
    await pool.close()


async def test_a_broker_that_takes_nothing_is_given_up(start_server: Servers) -> None:
    """What it has not taken is bounded even while the sender leaves the loop no turn."""
    server = await start_server(lambda connection, command: connection.reading.stop(1))
    limits = NetLimits(write_bytes_max=4_000_000)
    pool = ConnectionPool(kind=Channel, limits=limits)
    connection = await pool.connect(f"127.0.0.1:{server.port}")
    frame = encode_frame(Command(1, {}, bytes(100_000), flag=FLAG_ONEWAY))
    with pytest.raises(ConnectionLost, match="slow reader"):
        for _ in range(1000):
            connection.oneway_frame(frame)
    await pool.close()
