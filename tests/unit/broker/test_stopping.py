"""A broker that stops answers what it has taken, before it lets go of the connections."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame


async def test_sends_that_wait_for_the_disk_are_answered_before_the_end(tmp_path: Path) -> None:
    """Their producers would send them again, to a broker that does not know of the first time."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        backend: Any = broker.store.flusher._backend
        real, loop = backend.submit, asyncio.get_running_loop()

        def slow(syncs: Sequence[tuple[int, int]], *, log: bool = False) -> None:
            loop.call_later(0.2, lambda: real(syncs, log=log))

        backend.submit = slow
        await peer.send(encode_frame(send_command(b"last")))
        await until(lambda: bool(broker.store.flusher._waiting))
        stopping = asyncio.create_task(broker.stop())
        reply = await peer.read()
        assert (reply.code, reply.ext["queueOffset"]) == (ResponseCode.SUCCESS, "1")
        del backend.submit
        await stopping
