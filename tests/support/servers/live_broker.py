"""A real broker in this process, and a client that asks it anything."""

import asyncio
import http.client
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aerobee.broker.app import Broker
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.bodies import (
    Body,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    encode_body,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.client import ConnectionPool
from support.stand_ins.silent_server import SilentServer
from support.waiting import until


class LiveBroker:
    """A started broker with one connection to it."""

    def __init__(self, broker: Broker, pool: ConnectionPool) -> None:
        self.broker = broker
        self.pool = pool
        self.address = f"127.0.0.1:{broker.port}"

    async def ask(
        self,
        code: int,
        ext: Mapping[str, Any] | None = None,
        body: bytes | Body = b"",
        *,
        pool: ConnectionPool | None = None,
    ) -> Command:
        """Send one request, over another client's pool if given; values become strings."""
        fields = {key: str(value) for key, value in (ext or {}).items()}
        data = encode_body(body) if isinstance(body, Body) else body
        request = Command(code=code, ext=fields, body=data)
        return await (pool or self.pool).call(self.address, request, 10.0)

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of an address of its HTTP server."""
        await until(lambda: self.broker.http_port, what="HTTP to be served")
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", self.broker.http_port, timeout=10)
        try:
            client.request("GET", path)
            reply = client.getresponse()
            return reply.status, reply.read().decode()
        finally:
            client.close()


def small_settings(folder: Path, **settings: Any) -> BrokerSettings:
    """Return settings of a broker for tests: free ports, a small store, no HTTP, no helper."""
    values: dict[str, Any] = {
        "store_path_root_dir": folder / "store",
        "listen_port": 0,
        "bind_address": "127.0.0.1",
        "broker_ip1": "127.0.0.1",
        "http_port": -1,
        "mapped_file_size_commit_log": 1 << 20,
        "prepared_bytes": 256 << 10,
        "helper_process": False,
        "disk_space_warning_level_ratio": 95,
        "broker_fast_failure_enable": False,  # a busy machine is no reason to refuse sends
    }
    return BrokerSettings(**(values | settings))


@asynccontextmanager
async def live_broker(folder: Path, **settings: Any) -> AsyncIterator[LiveBroker]:
    """Start a broker and a client; stop both."""
    broker = Broker(small_settings(folder, **settings))
    await broker.start()
    pool = ConnectionPool()
    try:
        yield LiveBroker(broker, pool)
    finally:
        await pool.close()
        await broker.stop()


@asynccontextmanager
async def slow_announcements(folder: Path) -> AsyncIterator[LiveBroker]:
    """A broker whose nameserver never answers: what makes something new waits half a second."""
    async with (
        SilentServer() as nameserver,
        live_broker(folder, namesrv_addr=nameserver.address, announce_timeout_ms=500) as live,
    ):
        live.broker.context.cluster.registration.nameservers[0].answers = True
        yield live


async def fill(live: LiveBroker, body: bytes) -> None:
    """Make topic t with two messages in queue 0, and group g of client c1 that consumed one."""
    header = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    for _ in range(2):
        await live.ask(RequestCode.SEND_MESSAGE_V2, header, body)
    subscription = SubscriptionData(topic="t", sub_string="a || b", sub_version=1)
    consumer = ConsumerData(group_name="g", subscription_data_set=[subscription])
    beat = HeartbeatData(
        client_id="c1",
        consumer_data_set=[consumer],
        producer_data_set=[ProducerData(group_name="p")],
    )
    await live.ask(RequestCode.HEART_BEAT, body=beat)
    live.broker.context.tables.offsets.commit("g", "t", 0, 1)
