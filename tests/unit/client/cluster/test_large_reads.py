"""A connection that a broker tells much reads into memory of its own, and goes back afterwards."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from aerobee.client.cluster.channel import Channel
from aerobee.client.cluster.found import TakesFound
from aerobee.client.cluster.large_reads import LargeReads
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame

EXT = {"suggestWhichBrokerId": "0", "nextBeginOffset": "33", "minOffset": "1", "maxOffset": "64"}
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Pull(TakesFound):
    """Notes the body that it gets."""

    def __init__(self) -> None:
        self.came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        return self.came.done()

    def set_result(self, reply: Any) -> None:
        self.came.set_result(bytes(reply.body))

    def set_exception(self, exception: Exception) -> None:
        self.came.set_exception(exception)


def body(number: int, size: int) -> bytes:
    """Return bytes that are no other's."""
    return (b"%08d" % number) * (size // 8)


async def talk() -> list[type]:
    """Let a broker answer large pulls, then small ones; return who has heard it, time and again."""
    peers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _, writer: peers.put_nowait(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, channel = await loop.create_connection(
        lambda: Channel(lambda *_: None), "127.0.0.1", port
    )
    peer = await peers.get()
    number, heard = 0, []
    for count, size in ((8, 200_000), (3, 1_500_000), (100, 200), (8, 200_000)):
        pulls = []
        for _ in range(count):
            number += 1
            pulls.append((number, size, Pull()))
            channel.begin_frame_for(pulls[-1][2], b"", number, 11, 30.0)
            reply = Command(0, EXT, body(number, size), number, flag=1)
            peer.write(encode_frame(reply))
            if size < 1_000:  # each a read of its own
                assert await pulls[-1][2].came == body(number, size)
        for at, of, pull in pulls:
            assert await pull.came == body(at, of)
        heard.append(type(transport.get_protocol()))
    channel.close("done")
    await channel.wait_closed()
    server.close()
    await server.wait_closed()
    return heard


@pytest.mark.parametrize("make", LOOPS, ids=["asyncio", "uvloop"])
def test_who_hears_much_reads_into_memory_of_its_own(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Every reply is whole, through both changes, on either loop; the end is heard, too."""
    with asyncio.Runner(loop_factory=make) as runner:
        heard = runner.run(asyncio.wait_for(talk(), 30))
    assert heard == [LargeReads, LargeReads, Channel, LargeReads]
