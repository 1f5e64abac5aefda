"""A connection: one producer, and whatever its channels consume."""

import os
import time
from collections import deque
from queue import Empty
from typing import Any, Final

from kombu.transport import virtual

from aerobee.client.errors import BrokerRefused, InvalidMessage, RouteMissing, SendFailed
from aerobee.client.errors import Unavailable as ClientUnavailable
from aerobee.client.settings import ClientSettings
from aerobee.integrations.kombu.channel import TaskChannel
from aerobee.integrations.kombu.deliveries import Arrivals
from aerobee.integrations.kombu.exchange_reader import ExchangeReader
from aerobee.integrations.kombu.link import Link
from aerobee.integrations.kombu.names import Names
from aerobee.integrations.kombu.options import TransportOptions, tls_settings
from aerobee.integrations.kombu.payload import Heard

NAMESRV_PORT: Final = 9876
EXCHANGE_QUEUES: Final = 1
"""Of the topic of an exchange, on each broker: what is published stays in its order."""


class Transport(virtual.Transport):
    """Kombu's door to a cluster of Aerobee or RocketMQ, at the address of its nameserver."""

    Channel = TaskChannel
    client: Any
    cycle: Any
    state: Any
    default_port = NAMESRV_PORT  # type: ignore[assignment]  # kombu says None
    driver_type = "aerobee"
    driver_name = "aerobee"
    polling_interval = None  # type: ignore[assignment]  # nobody polls

    connection_errors = (  # type: ignore[assignment]  # more than kombu has
        *virtual.Transport.connection_errors,
        ClientUnavailable,
        RouteMissing,
        SendFailed,
        OSError,
    )
    channel_errors = (  # type: ignore[assignment]
        *virtual.Transport.channel_errors,
        BrokerRefused,
        InvalidMessage,
    )

    implements = virtual.Transport.implements.extend(
        asynchronous=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.options = TransportOptions.read(client.transport_options or {})
        host = self.client.virtual_host or "/"
        prefix = "" if host == "/" else host.strip("/") + "/"
        self.names = Names(self.options.topic_prefix + prefix)
        self.arrivals = Arrivals()
        self.transient: dict[str, deque[Heard]] = {}  # what waits for queues without a topic
        self._link: Link | None = None
        self._reader: ExchangeReader | None = None
        self._process = os.getpid()

    def driver_version(self) -> str:
        """Return the client's version."""
        from aerobee import __version__

        return str(__version__)

    # --- life ---

    def establish_connection(self) -> "Transport":
        """Find a nameserver that answers and knows a broker; raises Unavailable in time."""
        client = self.client
        if client.userid or client.password:
            raise ValueError("the client signs no requests: leave user and password out of the URL")
        namesrv = self.options.namesrv or (
            f"{client.hostname or 'localhost'}:{client.port or NAMESRV_PORT}"
        )
        link = Link(namesrv, ClientSettings(tls=tls_settings(client.ssl)))
        link.start()
        try:
            link.reach(client.connect_timeout or 5.0)
        except BaseException:
            link.close()
            raise
        if self.is_foreign():
            self._forget_parents()
        self._link = link
        super().establish_connection()
        return self

    def close_connection(self, connection: Any) -> None:
        """Close channels, consumers and the producer; in the child of a fork nothing is sent."""
        super().close_connection(connection)
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self.transient.clear()

    def _forget_parents(self) -> None:
        """Begin anew in the child of a fork: channels and what they hold are the parent's."""
        for channel in self.channels:
            channel.closed, channel.connection = True, None
        for what in (self.channels, self._avail_channels, self._callbacks, self.transient):
            what.clear()
        del self._used_channel_ids[:]
        self.state.clear()
        self.client.declared_entities.clear()
        self.arrivals = Arrivals()
        self._reader, self._process = None, os.getpid()

    def verify_connection(self, connection: Any) -> bool:
        """Whether this process may use it."""
        return self._link is not None and not self.is_foreign()

    def is_foreign(self) -> bool:
        """Whether this is the copy of a parent's connection, in the child of a fork."""
        return self._process != os.getpid()

    @property
    def link(self) -> Link:
        """The producer; raises ConnectionError where there is none, or it is another process's."""
        if self._link is None:
            raise ConnectionError("the connection is closed")
        if self.is_foreign():
            raise ConnectionError("the connection was made before a fork, by the parent process")
        return self._link

    # --- messages ---

    def drain_events(  # type: ignore[override]  # kombu names none
        self, connection: Any, timeout: float | None = None
    ) -> None:
        """Deliver one message; raises TimeoutError where none came in time."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = self.arrivals.count
            try:
                self.cycle.get(self._deliver, timeout=timeout)
                return
            except Empty:
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            self.arrivals.wait(seen, left_s)

    def exchange_topic(self, exchange: str) -> str:
        """Return the topic of an exchange, made where there is none."""
        topic = self.names.exchange(exchange)
        self.link.ensure_topic(topic, EXCHANGE_QUEUES)
        return topic

    def follow(self, exchange: str) -> None:
        """Let queues without a topic hear what is published to an exchange from now on."""
        topic = self.exchange_topic(exchange)
        if self._reader is None:
            reader = ExchangeReader(self.link, self._hear)
            reader.start()
            self._reader = reader
        self._reader.follow(exchange, topic)

    def _hear(self, exchange: str, heard: Heard) -> None:
        """Put a message where it belongs; called in the loop's thread."""
        message, body = heard
        key = (body["properties"].get("delivery_info") or {}).get("routing_key") or ""
        known = self.state.exchanges.get(exchange)
        if known is None or not self.channels:
            return
        table = [row for row in list(known["table"]) if row[2] in self.transient]
        kind = self.channels[0].exchange_types[known["type"]]
        for queue in kind.lookup(table, exchange, key, None):
            waiting = self.transient.get(queue)
            if waiting is not None:
                waiting.append((message, {**body, "properties": dict(body["properties"])}))
        self.arrivals.tell()

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Show the address; there is no password in it."""
        return uri
