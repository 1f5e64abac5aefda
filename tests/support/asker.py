"""Asks a nameserver what brokers, clients and tools ask it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aerobee.namesrv.app import NameServer
from aerobee.remoting.bodies import DataVersion, TopicConfig
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.registration_body import encode_register_body
from support.raw_peer import RawPeer

VERSION = DataVersion(counter=7, state_version=0, timestamp=1_700_000_000_000)
TOPICS = {
    name: TopicConfig(topic_name=name, read_queue_nums=8, write_queue_nums=4, perm=6)
    for name in ("orders", "TBW102")
}
BODY = encode_register_body(TOPICS, VERSION)
BROKER = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "DefaultCluster",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
}
BROKER_B = {"brokerName": "broker-b", "brokerAddr": "10.0.0.3:10911"}


class Asker(RawPeer):
    """A raw peer of a nameserver."""

    async def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", version: int = 513
    ) -> Command:
        """Send one request and return its reply."""
        request = Command(code=code, ext=ext or {}, body=body, opaque=code, version=version)
        reply = await self.request(request)
        assert reply.is_response
        assert reply.opaque == code
        return reply

    async def register(
        self, fields: Mapping[str, str] | None = None, *, body: bytes = BODY, version: int = 513
    ) -> Command:
        """Register a broker; `fields` go over those of broker-a."""
        ext = BROKER | dict(fields or {})
        return await self.ask(RequestCode.REGISTER_BROKER, ext, body, version)

    async def route(
        self,
        topic: str = "orders",
        fields: Mapping[str, str] | None = None,
        *,
        version: int = 513,
    ) -> Command:
        """Ask where a topic is."""
        ext = {"topic": topic} | dict(fields or {})
        return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext, version=version)


async def connect(server: NameServer) -> Asker:
    """Open a connection to a nameserver of this process."""
    return Asker(*await asyncio.open_connection("127.0.0.1", server.port))


def content(reply: Command) -> Any:
    """Read a reply's body as standard JSON."""
    return json.loads(bytes(reply.body))
