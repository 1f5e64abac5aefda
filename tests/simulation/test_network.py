"""The simulated network under the project's own servers and connections."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from aerobee.remoting.command import Command
from aerobee.remoting.errors import CallTimedOut, ConnectionLost, NotConnected
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.server import Server
from simulation.stage.doors import closed
from simulation.stage.loop import VirtualLoop
from simulation.stage.network import Network
from simulation.stage.process import Process
from simulation.stage.trace import Trace

ADDRESS = "10.0.0.1:9000"


class Bench:
    """One server that answers each request with its body, one client, and what is between them."""

    def __init__(self) -> None:
        self.loop = VirtualLoop(Random(1))
        self.network = Network(self.loop, Random(2), Trace(self.loop.time, None))
        self.got: list[bytes] = []
        self.server: Server
        self.host: Process
        self.client: Process

    def run(self, scenario: Callable[["Bench"], Coroutine[Any, Any, None]]) -> None:
        """Start both sides and run a scenario."""

        async def main() -> None:
            self.host = Process("server.1", "10.0.0.1", 1)
            self.client = Process("client.1", "10.0.0.2", 2)
            await self.host.call(self.serve(), "serve")
            await scenario(self)

        with closed(self.loop, self.network, Random(3)):
            self.loop.run_until_complete(main())

    async def serve(self) -> None:
        """Listen; remember and answer every request."""
        self.server = await Server.start(
            lambda budget: Connection(self.answer, budget=budget), "0.0.0.0", 9000
        )

    def answer(self, connection: Connection, command: Command) -> None:
        """Answer a request with its own body."""
        self.got.append(bytes(command.body))
        connection.send(command.reply(body=command.body))

    async def ask(self, pool: ConnectionPool, body: bytes, timeout_s: float = 3.0) -> bytes:
        """Ask as the client."""
        command = Command(code=1, body=body)
        reply = await self.client.call(pool.call(ADDRESS, command, timeout_s), "ask")
        return bytes(reply.body)


def test_requests_arrive_in_order_and_are_answered() -> None:
    """Many calls at once share a connection; a large body passes the window in pieces."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        bodies = [b"%d" % number for number in range(200)] + [bytes(3_000_000)]
        assert await asyncio.gather(*(bench.ask(pool, body) for body in bodies)) == bodies
        assert bench.got == bodies
        assert len(bench.network.wires) == 1
        assert next(iter(bench.server.connections)).remote.startswith("10.0.0.2:")

    Bench().run(scenario)


def test_nobody_listens() -> None:
    """A connection to where nobody listens is refused."""

    async def scenario(bench: Bench) -> None:
        await bench.server.close()
        with pytest.raises(NotConnected, match="refused"):
            await bench.ask(ConnectionPool(), b"x")

    Bench().run(scenario)


def test_a_reset_is_heard_on_both_sides() -> None:
    """A cut connection ends what waits on it; the next call makes another."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        await bench.ask(pool, b"one")
        (wire,) = bench.network.wires
        bench.network.cut(wire)
        with pytest.raises(ConnectionLost):
            await bench.ask(pool, b"two")
        assert await bench.ask(pool, b"three") == b"three"
        assert list(bench.network.wires) != [wire]
        assert len(bench.server.connections) == 1

    Bench().run(scenario)


@pytest.mark.parametrize("black_hole", [True, False])
def test_a_half_open_connection_outlives_its_successor(black_hole: bool) -> None:
    """The server keeps the old one until it times out, or until it sends something."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        await bench.ask(pool, b"one")
        (wire,) = bench.network.wires
        bench.network.leave_half_open(wire, wire.server, 60.0, black_hole=black_hole)
        await asyncio.sleep(1)
        assert await bench.ask(pool, b"two") == b"two"
        old, new = bench.server.connections
        assert not old.closed
        bench.loop.call_soon(old.oneway, Command(code=2), context=bench.host.context.copy())
        await asyncio.sleep(2)
        assert old.closed is not black_hole
        await asyncio.sleep(60)
        assert old.closed
        assert list(bench.server.connections) == [new]

    Bench().run(scenario)


def test_a_parted_host_gets_everything_later() -> None:
    """What is sent meanwhile waits; a call that does not wait so long fails."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        await bench.ask(pool, b"one")
        bench.network.part("10.0.0.1", "10.0.0.2", 5.0)
        with pytest.raises(CallTimedOut):
            await bench.ask(pool, b"two")
        assert bench.got == [b"one"]
        assert await bench.ask(pool, b"three") == b"three"
        assert bench.got == [b"one", b"two", b"three"]
        assert bench.loop.time() > 5

    Bench().run(scenario)


@pytest.mark.parametrize("silent_s", [0.0, 20.0])
def test_a_killed_server_is_gone_and_returns(silent_s: float) -> None:
    """Its peers hear of it at once, or as late as of a host that lost power."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        await bench.ask(pool, b"one")
        bench.network.kill(bench.host, silent_s=silent_s)
        with pytest.raises(CallTimedOut if silent_s else ConnectionLost):
            await bench.ask(pool, b"two")
        assert bench.got == [b"one"]
        bench.host = Process("server.2", "10.0.0.1", 3)
        await bench.host.call(bench.serve(), "serve")
        await asyncio.sleep(silent_s)
        assert await bench.ask(pool, b"three") == b"three"

    Bench().run(scenario)


def test_a_reader_that_pauses_pauses_the_sender() -> None:
    """A server that does not read lets the client keep what it would send."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        await bench.ask(pool, b"one")
        (connection,) = bench.server.connections
        connection.transport.pause_reading()
        asked = asyncio.create_task(bench.ask(pool, bytes(1_000_000), 10.0))
        await asyncio.sleep(3)
        (wire,) = bench.network.wires
        assert wire.client.get_write_buffer_size() > 500_000
        connection.transport.resume_reading()
        assert len(await asked) == 1_000_000

    Bench().run(scenario)


def test_a_connection_that_was_never_accepted_in_time_is_lost() -> None:
    """A server that stood still accepts what its client has given up, and hears of that."""

    async def scenario(bench: Bench) -> None:
        pool = ConnectionPool()
        bench.loop.freeze(bench.host, 10.0)
        with pytest.raises(CallTimedOut):
            await bench.ask(pool, b"one")
        bench.network.cut(next(iter(bench.network.wires)))
        await asyncio.sleep(20)
        assert not bench.server.connections
        assert await bench.ask(pool, b"two") == b"two"

    Bench().run(scenario)
