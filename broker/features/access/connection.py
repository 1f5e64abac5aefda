"""A client's connection to a broker that asks who he is: the guard before what `front` serves."""

import asyncio
from typing import Final, Protocol

import msgspec

from aerobee.broker.features.access.excerpts import Excerpt
from aerobee.broker.front.connection import PULLS, BrokerConnection, Frames
from aerobee.broker.front.traffic import Traffic
from aerobee.broker.pulls.pull import Pull
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.envelopes import DECODE_ENVELOPE, DECODE_PULL
from aerobee.remoting.net.access.certificates import ShownIdentity
from aerobee.remoting.net.access.guard import Guard
from aerobee.remoting.net.access.refusing import OnRefused, refuse
from aerobee.remoting.net.access.signature import ACCESS_KEY
from aerobee.remoting.net.budget import Budget


class NamedUser(msgspec.Struct, frozen=True):
    """Who a request says that it is from."""

    access_key: str = msgspec.field(name=ACCESS_KEY, default="")


DECODE_USER: Final = {
    Codec.JSON: msgspec.json.Decoder(NamedUser).decode,
    Codec.MSGPACK: msgspec.msgpack.Decoder(NamedUser).decode,
}


class Gate(Protocol):
    """What all guarded connections share."""

    guard: Guard
    stranger: Excerpt

    @property
    def on_refused(self) -> OnRefused:
        """Who hears of requests that are refused."""

    def excerpt(self, name: str, access_key: str, host: str) -> Excerpt:
        """Return what has passed of a user who has signed, or shown a certificate."""


class AskingConnection(BrokerConnection):
    """Asks who it is, and whether he may, before a request is served.

    The fast path serves what has passed before of the user who has signed on this connection, or
    whose certificate it has shown; the rest is asked, each request with its signature, if it is
    signed. `user` is who has asked last.
    """

    __slots__ = ("gate", "identity", "port", "user")

    def __init__(self, gate: Gate, port: Traffic, budget: Budget | None = None) -> None:
        super().__init__(gate.stranger.traffic(port), budget)
        self.gate = gate
        self.port = port
        self.user = gate.stranger
        self.identity = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note whose certificate was shown."""
        super().connection_made(transport)
        self.identity = ShownIdentity(self, self.gate.guard.rules.certificate_users).user

    def _fast(
        self,
        codec: int,
        header: bytes,
        body: bytes,
        stamp: bytes,
        acks: list[bytes],
        replies: Frames,
    ) -> bool:
        """Serve an ordinary send or pull, if the like of it by this user has passed."""
        if codec not in DECODE_USER:
            return False
        envelope = DECODE_ENVELOPE[codec](header)
        if DECODE_USER[codec](envelope.ext_fields).access_key != self.user.access_key:
            return False
        if envelope.code not in PULLS:
            return super()._fast(codec, header, body, stamp, acks, replies)
        if envelope.flag:
            return False
        wish = DECODE_PULL[codec](envelope.ext_fields)
        if not self.user.may_pull(wish.topic, wish.consumer_group):
            return False
        self._pull(Pull(self, wish, envelope.opaque, codec, envelope.code), replies)
        return True

    def _serve_checked(self, command: Command, replies: Frames) -> None:
        """Serve a request that passes both questions; refuse it where it does not."""
        if not command.is_response:
            try:
                name = self.gate.guard.check(self.remote_host[0], command, self.identity)
            except RequestError as error:
                refuse(self, command, error, self.gate.on_refused)
                return
            if name:
                self._note(name, command)
        super()._serve_checked(command, replies)

    def _note(self, name: str, command: Command) -> None:
        """Note who has signed, and what of it need not be asked again."""
        user, ext, code = self.user, command.ext, command.code
        access_key = ext.get(ACCESS_KEY, "")
        if user.over or (user.name, user.access_key) != (name, access_key):
            self.user = user = self.gate.excerpt(name, access_key, self.remote_host[0])
            self.traffic = user.traffic(self.port)
        if code in PULLS:
            user.pulled(ext.get("topic", ""), ext.get("consumerGroup", ""))
        elif code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            user.sent(ext.get("b", ""))
