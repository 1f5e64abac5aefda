"""Connections that wait for room in the log: they go on in a turn of their own, none twice."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until

from aerobee.broker.front.traffic import Stalls
from aerobee.broker.health.faults import Faults
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import ResponseCode
from aerobee.storage.errors import LogBusy


class Waiting:
    """Takes the place of a connection, and finds room from some try on."""

    remote = "here"

    def __init__(self, tries: int) -> None:
        self.tries = tries

    def retry(self, *, overdue: bool) -> bool:
        """Return whether there is still no room."""
        self.tries -= 1
        return self.tries > 0


async def test_a_report_is_heard_in_a_turn_of_its_own() -> None:
    """The log may say that there is room while an append of somebody asks for it."""
    waiting: list[object] = []
    live = Live(BrokerSettings(broker_ip1="127.0.0.1"))
    loop = asyncio.get_running_loop()
    stalls = Stalls(loop, waiting.append, live, Faults())
    first, second = Waiting(1), Waiting(2)
    stalls.add(first)  # type: ignore[arg-type]
    stalls.add(second)  # type: ignore[arg-type]
    assert len(waiting) == 1
    waiting.pop()()  # type: ignore[operator]
    assert (first.tries, second.tries) == (1, 2), "nobody is served inside of an append"
    await asyncio.sleep(0)
    assert (first.tries, second.tries) == (0, 1)
    stalls.add(second)  # type: ignore[arg-type]
    waiting.pop()()  # type: ignore[operator]
    await asyncio.sleep(0)
    assert (first.tries, second.tries) == (0, 0), "who has gone on is asked no more"


async def test_room_that_is_there_at_once_serves_everybody_once(tmp_path: Path) -> None:
    """The helper is gone for good while connections wait; the next append makes room itself."""
    settings = {"mappedFileSizeCommitLog": str(1 << 22), "preparedBytes": "65536"}
    async with running_broker(tmp_path, **settings) as broker, AsyncExitStack() as open_peers:
        peers = [
            await open_peers.enter_async_context(await RawPeer.connect(broker.port))
            for _ in range(4)
        ]
        assert (await peers[0].request(send_command(b"first"))).code == ResponseCode.SUCCESS
        allocator, log = broker.store.allocator, broker.store.commit_log
        room, make_room = False, log._make_room

        def busy(size: int, body_bytes: int) -> int:
            if not room:
                raise LogBusy("space is being prepared")
            allocator._progressed()  # as `want` does where it prepares here
            return make_room(size, body_bytes)

        log._make_room = busy  # type: ignore[method-assign]
        log._limit = -1
        allocator.on_progress = lambda: None
        requests = [
            asyncio.ensure_future(peer.request(send_command(b"%d" % at)))
            for at, peer in enumerate(peers[1:])
        ]
        waiting = broker._front.stalls._deadlines
        await until(lambda: len(waiting) == len(requests), what="all wait")
        room = True
        requests.append(asyncio.ensure_future(peers[0].request(send_command(b"last"))))
        offsets = [(await request).ext["queueOffset"] for request in requests]
        assert sorted(offsets) == ["1", "2", "3", "4"], "each at a place of its own"
        assert not waiting
