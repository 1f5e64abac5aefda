"""A whole broker with one connection that has no socket: what is left is the broker's own work."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aerobee.broker.app import Broker
from aerobee.broker.rules.attributes import DEDUP_SECONDS
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.process import spare_collector
from benchmarks.pieces.messages import QUEUES, TOPIC, Renewed, send_frame

USER: Final = SessionCredentials("bench", "a secret of the benchmark")


class DeafTransport(asyncio.Transport):
    """Takes every write and counts the bytes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5555)})
        self.written_bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count."""
        self.written_bytes += len(data)

    def is_closing(self) -> bool:
        """Return that it is open, always."""
        return False

    def get_write_buffer_size(self) -> int:
        """Return that nothing waits."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Need none."""

    def pause_reading(self) -> None:
        """Have nothing to pause."""

    def resume_reading(self) -> None:
        """Have nothing to resume."""

    def close(self) -> None:
        """Have nothing to close."""

    def abort(self) -> None:
        """Fail: the broker refused what it was given."""
        raise AssertionError("the broker cut the connection off")


class OfflineConnection:
    """What a client's reads cost: `read` handles one, with everything up to the socket write."""

    def __init__(self, broker: Broker, user: SessionCredentials | None = None) -> None:
        front, self._user = broker.context.front, user
        self.transport = DeafTransport()
        self._connection = front.connect(front.traffic, Budget(front.traffic.limits))
        self._connection.connection_made(self.transport)
        self._commit = broker.context.writing.tick.commit
        self._queues = broker.context.writing.queues

    def read(self, data: bytes) -> None:
        """Handle what one socket read would bring, and commit as the loop does after its turn."""
        self._connection.data_received(data)
        self._commit()

    def signed(self, data: bytes) -> bytes:
        """Return frames as this connection's user sends them."""
        return data if self._user is None else self._user.sign_frames(data)

    def stored(self, topic: str, queues: int) -> int:
        """Return how many messages the topic has."""
        return sum(self._queues.get(topic, number).stored.max_offset for number in range(queues))

    def entries(self, topic: str, begin: int) -> list[tuple[int, int]]:
        """Return offset and position of what queue 0 of a topic has from an offset on."""
        stored = self._queues.get(topic, 0).stored
        return [(offset, stored.entry(offset)[0]) for offset in range(begin, stored.max_offset)]


@asynccontextmanager
async def offline_connection(
    folder: Path,
    log_bytes: int = 512 << 20,
    *,
    compiled: bool = True,
    once: bool = False,
    signs: bool = False,
    more: Mapping[str, Any] | None = None,
) -> AsyncIterator[OfflineConnection]:
    """Start a broker whose log is ready for `log_bytes`; the topic exists and takes messages.

    `compiled` says whether compiled code, where there is some, serves sends; `once` that the topic
    stores a producer's retry once; with `signs` the broker asks who it is; `more` are settings.
    """
    values: dict[str, Any] = {
        "store_path_root_dir": folder,
        "listen_port": 0,
        "bind_address": "127.0.0.1",
        "broker_ip1": "127.0.0.1",
        "http_port": -1,
        "helper_process": False,
        "prepared_bytes": log_bytes,
        "compiled_fast_path": compiled,
        "enable_property_filter": True,
        "broker_fast_failure_enable": False,  # the loop stands still between two reads
    }
    if signs:
        values |= {"authentication_enabled": True, "authorization_enabled": True}
        values["inner_client_authentication_credentials"] = json.dumps(
            {"accessKey": USER.access_key, "secretKey": USER.secret_key}
        )
    broker = Broker(BrokerSettings(**(values | dict(more or {}))))
    await broker.start()
    spare_collector()  # as a broker's process does
    try:
        connection = OfflineConnection(broker, USER if signs else None)
        connection.read(connection.signed(send_frame(0, 1024)))  # makes the topic
        await asyncio.sleep(0.2)
        if once:
            topics = broker.context.tables.topics
            if (config := topics.get(TOPIC)) is not None:
                topics.update(config, {f"+{DEDUP_SECONDS}": "600"})
        at_once, frame, tries = False, Renewed(send_frame(0, 1024)), 0
        while not at_once:  # from then on they go the short way
            await asyncio.sleep(0.2)
            stored = connection.stored(TOPIC, QUEUES)
            connection.read(connection.signed(frame.next(tries := tries + 1)))
            at_once = connection.stored(TOPIC, QUEUES) > stored
        yield connection
    finally:
        await broker.stop()
