"""What has passed of one user's requests from one address: nothing of it is asked again.

Plain sends to topics that he may send to, and pulls as groups and of topics that he may consume,
take the fast path of a connection on which he has signed. Everything else is asked each time.
"""

from typing import Final

import msgspec

from aerobee.broker.features.access.pulls import PortPulls, UserPulls
from aerobee.broker.front.parts import Front
from aerobee.broker.front.traffic import Traffic
from aerobee.broker.sends.fast import FastSends
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import QueueExcerpt
from aerobee.remoting.command import Codec
from aerobee.remoting.headers.envelopes import SendFields
from aerobee.remoting.net.access.users import NAME_CHARS_MAX

PULLS_MAX: Final = 100_000
"""Pairs of topic and group of one user that are remembered; more are asked again."""


class UserSends(FastSends):
    """The fast path of sends of one user, which declines whatever says that it is another's."""

    def __init__(
        self,
        settings: BrokerSettings,
        writing: Writing,
        store_host: bytes,
        queues: QueueExcerpt,
        access_key: str,
    ) -> None:
        super().__init__(settings, writing, store_host, queues)
        self._access_key = access_key

    def send(
        self,
        fields: SendFields,
        opaque: int,
        body: bytes,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        codec: int = Codec.JSON,
    ) -> bool:
        """Append one message of this user."""
        if fields.access_key != self._access_key:
            return False
        return super().send(fields, opaque, body, stamp, stamp_flag, acks, codec)

    def send_batch(
        self,
        fields: SendFields,
        opaque: int,
        body: bytes,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        codec: int = Codec.JSON,
    ) -> bool:
        """Append the messages of one batch of this user."""
        if fields.access_key != self._access_key:
            return False
        return super().send_batch(fields, opaque, body, stamp, stamp_flag, acks, codec)


class Rooms(msgspec.Struct, frozen=True):
    """What serves those of whom something has passed."""

    writing: Writing
    front: Front
    pulls: UserPulls


class Excerpt:
    """What may pass of a user at an address, until users, policies or settings change.

    A stranger has no name, and nothing of him passes. Where `each_is_asked` nobody's does. Requests
    of who has shown a certificate have no `access_key`.
    """

    def __init__(self, name: str, access_key: str, rooms: Rooms, *, each_is_asked: bool) -> None:
        writing, front = rooms.writing, rooms.front
        self.name = name
        self.access_key = access_key
        self.over = False  # something has changed: who holds this asks for another
        self._queues = QueueExcerpt(writing.queues, access_key.encode())
        self._pulls: set[tuple[str, str]] = set()
        self._passes = bool(name) and not each_is_asked
        self._front = front
        self._writing = writing
        self._user_pulls = rooms.pulls
        self._sends = UserSends(
            front.live.current, writing, writing.store_host, self._queues, access_key
        )
        self._traffic: dict[Traffic, Traffic] = {}

    def traffic(self, port: Traffic) -> Traffic:
        """Return what a connection of this user serves with, of what others of its port have."""
        own = self._traffic.get(port)
        if own is None:
            pulls = PortPulls(port) if port.pulls.serve_run is None else self._user_pulls
            own = self._traffic[port] = Traffic(
                self._front, self._writing, port.dispatcher, self._sends, pulls
            )
            own.halves = None  # what begins or ends a transaction is asked each time
        return own

    def sent(self, topic: str) -> None:
        """Note that he may send to a topic."""
        if self._passes:
            self._queues.admit(topic)

    def pulled(self, topic: str, group: str) -> None:
        """Note that he may pull messages of a topic as a group."""
        short = len(topic) <= NAME_CHARS_MAX and len(group) <= NAME_CHARS_MAX
        if self._passes and short and len(self._pulls) < PULLS_MAX:
            self._pulls.add((topic, group))

    def may_pull(self, topic: str, group: str) -> bool:
        """Whether a pull like this has passed."""
        return (topic, group) in self._pulls

    def end(self) -> None:
        """Let nothing pass any more."""
        self.over = True
        self._queues.forget_checks()
        self._pulls.clear()
