"""Brokers that get the same bytes: with compiled sends, without, and with every check."""

import asyncio
import random
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self

import pytest

from aerobee.broker.app import Broker
from aerobee.broker.features.delays.feature import Delays
from aerobee.broker.sends import checked as checked_sends
from aerobee.remoting.frame import encode_frame
from aerobee.storage.upkeep.flush import Flusher
from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import Wire, connect, feed

TOPICS: Final = ("T", "golden")
"""What the brokers know, and have on the fast path's list; they make no other."""

HOST: Final = bytes(8)
NOW_MS: Final = 1_800_000_000_000


class SameIds:
    """Gives a message without a unique key one that is the same in both brokers."""

    def next(self) -> str:
        """Return it."""
        return "SAME0000"


class TwinBrokers:
    """The pair, with what they have stored and answered so far.

    With `checked` there is a third one, in which no send takes the fast path: a hook watches them.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, checked: bool = False, **options: str
    ) -> None:
        self._checked = checked
        self._runner = asyncio.Runner()
        self._exits = AsyncExitStack()
        self._options = options
        self.brokers: list[Broker] = []
        self.compiled_frames = 0  # how many were not declined
        monkeypatch.setattr(checked_sends, "_unique_ids", SameIds())
        monkeypatch.setattr(Flusher, "queues_due", lambda *_: False)  # rounds come as time goes by

    def __enter__(self) -> Self:
        try:
            self._runner.run(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._exits.aclose())
        self._runner.close()

    async def _start(self) -> None:
        for compiled in ("true", "false", "checked")[: 3 if self._checked else 2]:
            root = Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
            fast_path = "true" if compiled == "true" else "false"
            running = running_broker(root, compiledFastPath=fast_path, **self._options)
            broker = await self._exits.enter_async_context(running)
            broker.context.now_ms = broker.context.front.traffic.now_ms = lambda: NOW_MS
            broker.context.front.fast_traffic.now_ms = broker.context.front.traffic.now_ms
            broker.context.sends.storing.now_ms = broker.context.front.traffic.now_ms
            delays = broker.features.find(Delays)
            assert delays is not None
            delays.service._now_ms = (
                broker.context.front.traffic.now_ms
            )  # nothing delayed is ever due
            self.brokers.append(broker)
            if compiled == "checked":
                broker.hooks.add(before_send=lambda event: None)
            for topic in TOPICS:
                connection, wire = connect(broker)
                connection.data_received(encode_frame(send_command(topic=topic)))
                await until(wire.replies, what=f"topic {topic} is known")
            broker.live.change(
                broker.settings.model_copy(update={"auto_create_topic_enable": False})
            )
            for topic in TOPICS:
                await feed(*connect(broker), [encode_frame(send_command(topic=topic))])
        self._count(self.brokers[0])
        assert [
            broker.context.front.traffic.sends.serve_run is None for broker in self.brokers[:2]
        ] == [
            False,
            True,
        ]

    def _count(self, broker: Broker) -> None:
        """Keep count of what the compiled code serves."""
        sends = broker.context.front.traffic.sends
        serve_run = sends.serve_run
        assert serve_run is not None

        def counted(*given: Any) -> tuple[int, int]:
            at, frames = serve_run(*given)
            self.compiled_frames += frames
            return at, frames

        sends.serve_run = counted

    def exchange(self, pieces: list[bytes], peer: str = "127.0.0.1") -> list[dict[str, Any]]:
        """Give both the same reads on a new connection; return what each did with them."""
        return self._runner.run(self._exchange(pieces, peer))

    def each(self, do: Callable[[Broker], object]) -> list[Any]:
        """Do something with both, on their loop; return what came of it."""

        async def done() -> list[Any]:
            return [do(broker) for broker in self.brokers]

        return self._runner.run(done())

    async def _exchange(self, pieces: list[bytes], peer: str) -> list[dict[str, Any]]:
        outcomes = []
        for broker in self.brokers:
            random.seed(0)  # for messages that ask for any queue
            begin = broker.store.commit_log.position
            connection, wire = connect(broker, peer)
            await feed(connection, wire, [piece for piece in pieces if piece])
            outcomes.append({**wire_state(broker, wire), **stored(broker, begin)})
            outcomes[-1]["held"] = connection.reading.frame.held_bytes
        return outcomes


def wire_state(broker: Broker, wire: Wire) -> dict[str, Any]:
    """Return what the client sees; the brokers' ports, which differ, are taken out."""
    host_hex = broker.context.writing.store_host.hex().upper().encode()
    written = bytes(wire.written).replace(host_hex, HOST.hex().encode())
    written = written.replace(
        broker.context.writing.store_host, HOST
    )  # in records that were pulled
    address = b"127.0.0.1:%d" % broker.port  # the number alone may be a request's, too
    return {"written": written.replace(address, b"127.0.0.1:PORT"), "ended": wire.ended}


def stored(broker: Broker, begin: int) -> dict[str, Any]:
    """Return the log from a position on, and every queue's end and newest entries."""
    log = broker.store.commit_log
    pieces = []
    at = begin
    while at < log.position:
        pieces.append(log.read(at, log.position - at))
        at += len(pieces[-1])
    queues = {
        (queue.name, queue.queue_id): (
            queue.stored.max_offset,
            queue.arrived_bytes,
            [
                queue.stored.entry(offset)
                for offset in range(
                    max(queue.stored.min_offset, queue.stored.max_offset - 64),
                    queue.stored.max_offset,
                )
            ],
        )
        for queue in broker.context.writing.queues.used()
    }
    data = b"".join(pieces).replace(broker.context.writing.store_host, HOST)
    return {"log": data, "position": log.position, "queues": queues}
