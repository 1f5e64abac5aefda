"""Users of a broker that asks who they are, each with connections of his own."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aerobee.remoting.bodies import (
    AclInfo,
    Body,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    encode_body,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.access.signature import ACCESS_KEY, SIGNATURE, signature
from aerobee.remoting.net.client import ConnectionPool
from support.servers.live_broker import LiveBroker, live_broker

ROOT: Final = "root"
SECRET: Final = "a secret"
"""Of every user here."""
ASKED: Final = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": ROOT, "password": SECRET}),
}


def signed(
    name: str, fields: Mapping[str, Any], body: bytes = b"", secret: str = SECRET
) -> dict[str, str]:
    """Return the header fields of a request that a user signs."""
    ext = {key: str(value) for key, value in fields.items()} | {ACCESS_KEY: name}
    return ext | {SIGNATURE: signature(secret.encode(), ext, body)}


class AskingUser:
    """Somebody who signs what he asks of a broker."""

    def __init__(self, live: LiveBroker, name: str, secret: str = SECRET) -> None:
        self.live, self.name, self.secret = live, name, secret
        self.pool = ConnectionPool()

    async def ask(
        self, code: int, fields: Mapping[str, Any] | None = None, body: bytes | Body = b""
    ) -> Command:
        """Send one signed request."""
        data = encode_body(body) if isinstance(body, Body) else body
        ext = signed(self.name, fields or {}, data, self.secret)
        return await self.live.ask(code, ext, data, pool=self.pool)

    async def send(self, topic: str, body: bytes = b"x", **fields: Any) -> Command:
        """Send a message to queue 0 of a topic."""
        header = {
            "a": "p", "b": topic, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0,
            "i": f"UNIQ_KEY\x01{body.hex().upper()}\x02",
        }  # fmt: skip
        return await self.ask(RequestCode.SEND_MESSAGE_V2, header | fields, body)

    async def pull(self, topic: str, group: str, offset: int = 0) -> Command:
        """Pull from queue 0 of a topic."""
        header = {
            "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": offset,
            "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0,
        }  # fmt: skip
        return await self.ask(RequestCode.PULL_MESSAGE, header)

    async def make_user(self, name: str, **fields: str) -> None:
        """Make a user with the secret of all."""
        info = UserInfo(**({"password": SECRET} | fields))
        reply = await self.ask(RequestCode.AUTH_CREATE_USER, {"username": name}, info)
        assert reply.code == 0, reply.remark

    async def allow(self, name: str, resource: str, *actions: str, decision: str = "Allow") -> None:
        """Give a user a right."""
        entry = PolicyEntryInfo(resource=resource, actions=list(actions), decision=decision)
        acl = AclInfo(policies=[PolicyInfo(entries=[entry])])
        reply = await self.ask(RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, acl)
        assert reply.code == 0, reply.remark


class Asked:
    """A broker that asks, and those who ask it."""

    def __init__(self, live: LiveBroker) -> None:
        self.live = live
        self._users: list[AskingUser] = []
        self.root = self.user(ROOT)

    def user(self, name: str, secret: str = SECRET) -> AskingUser:
        """Return somebody with connections of his own."""
        self._users.append(AskingUser(self.live, name, secret))
        return self._users[-1]

    async def with_rights(self, name: str, *rights: str) -> AskingUser:
        """Make a user with rights like "Topic:t Pub"."""
        await self.root.make_user(name)
        for right in rights:
            resource, *actions = right.split()
            await self.root.allow(name, resource, *actions)
        return self.user(name)

    async def close(self) -> None:
        """Close all their connections."""
        for user in self._users:
            await user.pool.close()


@asynccontextmanager
async def asking_broker(folder: Path, **settings: Any) -> AsyncIterator[Asked]:
    """Start a broker that asks who is there, with one super user; stop it."""
    async with live_broker(folder, **(ASKED | settings)) as live:
        asked = Asked(live)
        try:
            yield asked
        finally:
            await asked.close()
