"""The network that the simulated processes share: latency, cut cables, half-open connections.

It gives `remoting.net` what that asks of sockets and of the event loop: a listener, accepted
sockets, `create_connection`. Every connection is a `Wire` with an `End` on either side.
"""

import asyncio
import errno
import zlib
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from simulation.stage.loop import VIRTUAL_FD, VirtualLoop
from simulation.stage.process import PROCESS, Process
from simulation.stage.trace import Trace
from simulation.stage.transports import APART_S, Address, End

SPLIT_SHARE: Final = 0.03  # of the writes arrive in two reads
SLOW_SHARE: Final = 0.01  # of the pieces are delayed as if a packet had been lost
SLOW_S: Final = (0.2, 0.8)
FIRST_PORT: Final = 40_000
FOR_EVER_S: Final = 1e9


def reset_error() -> ConnectionResetError:
    """Return what a socket says whose peer has reset the connection."""
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


class Wire:
    """One connection; `client` made it, `server` accepted it.

    A black hole swallows what either end sends: the cable is cut, or a firewall has forgotten the
    connection. An end that sends to a peer that is gone for good gets a reset, unless it is one.
    """

    def __init__(
        self, network: "Network", client: Process, server: Process, port: int, address: Address
    ) -> None:
        self.network = network
        self.black_hole = False
        self.deaf = False  # what the server says is lost
        self.base_s = network.dice.choice((0.0001, 0.0003, 0.001, 0.004))
        name = (client.ip, port)
        self.client = End(self, client, name, address)
        self.server = End(self, server, address, name)
        self.client.peer, self.server.peer = self.server, self.client

    def send(self, sender: End, data: bytes | None) -> None:
        """Let a piece, or the good-bye (None), travel to the other end."""
        if not self.black_hole and not (self.deaf and sender is self.server):
            self._travel(sender, self._arrive, sender.peer, data)

    def lose_replies(self) -> None:
        """Let nothing more arrive that the server sends."""
        self.deaf = True

    def reset_peer(self, sender: End) -> None:
        """Let a reset travel to the other end, behind what is on its way."""
        if not self.black_hole:
            self._travel(sender, sender.peer.lose, reset_error())

    def _travel(self, sender: End, callback: Callable[..., object], *args: Any) -> None:
        loop, receiver = self.network.loop, sender.peer.process
        at_s = max(
            loop.time() + self.network.latency_s(self.base_s, sender.process, receiver),
            sender.arrives_s + APART_S,
        )
        sender.arrives_s = at_s
        loop.call_at(at_s, callback, *args, context=receiver.context.copy())

    def _arrive(self, end: End, data: bytes | None) -> None:
        if not end.lost:
            end.arrive(data)
        elif data is not None and not end.peer.lost:
            self.reset_peer(end)

    def piece_bytes(self, room: int, wanted: int) -> int:
        """Return how much of a write travels together."""
        if wanted > 1 and self.network.dice.random() < SPLIT_SHARE:
            wanted = self.network.dice.randrange(1, wanted)
        return min(room, wanted)

    def read(self, end: End, data: bytes) -> None:
        """Enter bytes that a process reads into the trace."""
        self.network.trace.count(b"%s %d %d" % (end.name.encode(), len(data), zlib.crc32(data)))

    def ended(self, end: End) -> None:
        """Forget the connection when both ends are gone."""
        if self.client.lost and self.server.lost:
            self.network.wires.pop(self, None)


class Listener:
    """What a listening socket is to `remoting.net.server`."""

    def __init__(self, network: "Network", process: Process, address: Address, fd: int) -> None:
        self.process = process
        self._network = network
        self._address = address
        self._fd = fd
        self._waiting: deque[End] = deque()

    def offer(self, end: End) -> None:
        """Let a connection wait to be accepted."""
        self._waiting.append(end)
        self._network.loop.notify(self._fd)

    def fileno(self) -> int:
        """Return the number by which the loop is told to watch it."""
        return self._fd

    def getsockname(self) -> Address:
        """Return its address."""
        return self._address

    def accept(self) -> tuple["Accepted", Address]:
        """Return the next connection and who made it; BlockingIOError when there is none."""
        if not self._waiting:
            raise BlockingIOError
        end = self._waiting.popleft()
        return Accepted(end), end.peername

    def close(self) -> None:
        """Listen no more."""
        self._network.listeners.pop(self._address, None)


class Accepted:
    """What an accepted socket is to `remoting.net.server`, until it becomes a transport."""

    def __init__(self, end: End) -> None:
        self.end = end

    def setblocking(self, flag: bool) -> None:
        """Nothing here blocks."""

    def setsockopt(self, *option: object) -> None:
        """Options change nothing here."""

    def close(self) -> None:
        """Refuse the connection."""
        self.end.abort()


class Network:
    """Hosts by address, who listens, and the connections there are."""

    def __init__(self, loop: VirtualLoop, dice: Random, trace: Trace) -> None:
        self.loop = loop
        self.dice = dice
        self.trace = trace
        self.listeners: dict[Address, Listener] = {}
        self.wires: dict[Wire, None] = {}
        self._fds = iter(range(VIRTUAL_FD, VIRTUAL_FD << 4))
        self._ports = iter(range(FIRST_PORT, FIRST_PORT << 4))
        self._unreachable: dict[frozenset[str], float] = {}  # pairs of hosts, until when
        self._dark_until_s: dict[str, float] = {}  # hosts that do not even refuse connections
        loop.connect_through(self.create_connection, self.connect_accepted_socket)

    # --- for remoting.net ---

    async def open_listener(self, host: str, port: int) -> Listener:
        """Stand in for `server.open_listener`; every process has an address of its own."""
        process = running_process()
        address = (process.ip, port or next(self._ports))
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {address}: in use")
        listener = Listener(self, process, address, next(self._fds))
        self.listeners[address] = listener
        return listener

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int, **options: object
    ) -> tuple[End, Any]:
        """Stand in for the loop's: connect to whoever listens, or be refused."""
        process = running_process()
        address = (host, port)
        await asyncio.sleep(self.dice.uniform(0.0002, 0.002))
        await asyncio.sleep(self._cut_until_s(process.ip, host) - self.loop.time())
        if address not in self.listeners:
            await asyncio.sleep(self._dark_until_s.get(host, 0.0) - self.loop.time())
        listener = self.listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {address}")
        wire = Wire(self, process, listener.process, next(self._ports), address)
        self.wires[wire] = None
        listener.offer(wire.server)
        try:
            await asyncio.sleep(wire.base_s)
        except BaseException:
            wire.client.abort()
            raise
        protocol = factory()
        wire.client.attach(protocol)
        return wire.client, protocol

    async def connect_accepted_socket(
        self, factory: Callable[[], Any], accepted: Accepted, **options: object
    ) -> tuple[End, Any]:
        """Stand in for the loop's: give an accepted connection its protocol."""
        await asyncio.sleep(0)
        protocol = factory()
        accepted.end.attach(protocol)
        return accepted.end, protocol

    # --- what can go wrong ---

    def latency_s(self, base_s: float, one: Process, other: Process) -> float:
        """Return how long a piece travels now."""
        dice = self.dice
        seconds = base_s * dice.uniform(1, 3)
        if dice.random() < SLOW_SHARE:
            seconds += dice.uniform(*SLOW_S)
        return seconds + max(0.0, self._cut_until_s(one.ip, other.ip) - self.loop.time())

    def part(self, one: str, other: str, seconds: float) -> None:
        """Let nothing get through between two hosts for a while; then it all arrives, late."""
        self._unreachable[frozenset((one, other))] = self.loop.time() + seconds

    def heal(self) -> None:
        """Let everything new get through from now on, also in connections that were cut."""
        self._unreachable.clear()

    def cut(self, wire: Wire) -> None:
        """Reset a connection; both sides hear of it, each in its time."""
        for end in (wire.client, wire.server):
            wire.reset_peer(end)

    def leave_half_open(
        self, wire: Wire, alive: End, seconds: float, *, black_hole: bool = True
    ) -> None:
        """End a connection on one side only; the other holds it for at most so long.

        Without the black hole the first thing that it sends is answered with a reset.
        """
        wire.black_hole = black_hole
        alive.peer.lose(reset_error())
        context = alive.process.context.copy()
        error = TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        self.loop.call_later(seconds, alive.lose, error, context=context)

    def kill(self, process: Process, *, silent_s: float = 0.0) -> None:
        """End a process: peers hear of it at once, or as if its host had lost power, later."""
        process.died()
        self.loop.silence(process)
        self._dark_until_s[process.ip] = self.loop.time() + silent_s
        for listener in [each for each in self.listeners.values() if each.process is process]:
            listener.close()
        for end in list(process.ends):
            if silent_s:
                self.leave_half_open(end.wire, end.peer, silent_s)
            else:
                end.abort()

    def _cut_until_s(self, one: str, other: str) -> float:
        return self._unreachable.get(frozenset((one, other)), 0.0)


def running_process() -> Process:
    """Return the process whose code is running."""
    process = PROCESS.get()
    assert process is not None, "only processes use the network"
    return process
