"""Tells the nameservers that this broker is there and which topics it has.

Every nameserver is spoken to on its own and in parallel: one that is slow or gone delays nobody.
A full registration carries all topics, an announcement only what changed; a nameserver that does
not know this broker (it refuses announcements) gets a full one. Invariant: `announce` returns when
the topics are on this broker's disk and every nameserver that answers has them, or after
`announceTimeoutMs` (BrokerController.registerBrokerAll, BrokerOuterAPI).
"""

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import (
    DataVersion,
    KVTable,
    TopicConfig,
    TopicQueueMappingInfo,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.registration import (
    QueryDataVersionReply,
    QueryDataVersionRequest,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)
from aerobee.remoting.headers.typed import Header, decode_header, encode_header
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import OnFailure, Tasks
from aerobee.remoting.registration_body import encode_register_body

log = logging.getLogger(__name__)

PERIOD_MS_MIN: Final = 10_000
PERIOD_MS_MAX: Final = 60_000
RETRY_S: Final = 2.0  # how soon a nameserver that did not answer is tried again
UNREGISTER_TIMEOUT_S: Final = 1.0


Mapped = Callable[[Iterable[str]], Mapping[str, TopicQueueMappingInfo]]


class Caller(Protocol):
    """What is needed of a connection pool."""

    def get(self, address: str) -> Connection | None:
        """Return the open connection to an address."""

    async def call(self, address: str, command: Command, timeout_s: float) -> Command:
        """Send a request to an address and return its reply."""


class Nameserver:
    """One nameserver as this broker sees it, and what it is still to be told.

    One worker talks to it at a time, so versions reach it in order; what comes up meanwhile is
    gathered and told together.
    """

    __slots__ = (
        "address", "answers", "batch", "connection", "everything", "knows_us", "pending", "worker",
    )  # fmt: skip

    def __init__(self, address: str) -> None:
        self.address = address
        self.knows_us = False  # it took a full registration, over the connection that still stands
        self.answers = True  # the last call got its reply in time
        self.connection: Connection | None = None
        self.pending: dict[str, TopicConfig] = {}
        self.everything = False  # not only what is pending
        self.batch: asyncio.Future[None] | None = None  # done when what is pending was told
        self.worker: asyncio.Task[Any] | None = None

    def heard_on(self, connection: Connection | None) -> None:
        """It forgets a broker whose connection ends, so it has to be told again."""
        if connection is None or connection is self.connection:
            return
        self.connection = connection
        connection.on_closed.append(self._lost)

    def _lost(self, connection: Connection) -> None:
        if connection is self.connection:
            self.connection = None
            self.knows_us = False


class Registrar:
    """Keeps the nameservers informed; `address` is where clients reach this broker."""

    def __init__(
        self,
        live: Live,
        topics: TopicTable,
        caller: Caller,
        address: str,
        on_failure: OnFailure | None = None,
    ) -> None:
        self._live = live
        self._topics = topics
        self._caller = caller
        self.address = address
        self.nameservers = [Nameserver(server) for server in live.current.nameservers]
        live.on_change(self._follow)
        self._tasks = Tasks(on_failure)
        self._closing = False
        self.mapped: Mapped | None = None  # who knows the static topics, where there are any

    @property
    def registered(self) -> bool:
        """Whether at least one nameserver knows this broker; without nameservers, True."""
        return not self.nameservers or any(server.knows_us for server in self.nameservers)

    async def start(self) -> None:
        """Register everywhere, waiting for nobody longer than an announcement does."""
        await self._tell_all(None)

    async def run(self) -> None:
        """Register again every period, and soon where it failed; until cancelled."""
        clock = asyncio.get_running_loop().time
        due_s = clock() + self._period_s()
        while True:
            await asyncio.sleep(max(0.0, min(RETRY_S, due_s - clock())))
            everybody = clock() >= due_s
            if everybody:
                due_s = clock() + self._period_s()
            for server in self.nameservers:
                if server.worker is not None:
                    continue
                if everybody and server.knows_us and not self._live.current.force_register:
                    self._tasks.start(self._refresh(server), f"refresh {server.address}")
                elif everybody or not server.knows_us:
                    self._tell(server, None)

    async def announce(self, *configs: TopicConfig) -> None:
        """Make changed topics durable here and known to every nameserver.

        Raises OSError where topics.json cannot be written.
        """
        await asyncio.gather(self._topics.file.flush(), self._tell_all(configs))

    async def announce_all(self) -> None:
        """Tell every nameserver everything: a permission of the whole broker has changed."""
        await asyncio.gather(self._topics.file.flush(), self._tell_all(None))

    def _follow(self, settings: BrokerSettings) -> None:
        """Take leave of nameservers that are no longer named, and register with new ones."""
        known = {server.address: server for server in self.nameservers}
        if self._closing or list(known) == list(settings.nameservers):
            return
        new = [address for address in settings.nameservers if address not in known]
        gone = [server for address, server in known.items() if address not in settings.nameservers]
        self.nameservers = [
            known.get(address) or Nameserver(address) for address in settings.nameservers
        ]
        log.info("nameservers changed new=%s gone=%s", new, [server.address for server in gone])
        for server in self.nameservers:
            if server.address in new:
                self._tell(server, None)
        for server in gone:
            self._tasks.start(self._leave(server), f"leave {server.address}")

    async def _leave(self, server: Nameserver) -> None:
        """Take leave of one nameserver, after what it is being told."""
        while server.batch is not None:
            await server.batch
        if server.address not in (each.address for each in self.nameservers):
            await self._unregister(server)

    async def stop(self) -> None:
        """Take leave of every nameserver; bounded by `UNREGISTER_TIMEOUT_S`."""
        self._closing = True
        await self._tasks.close()
        leaving = [self._unregister(server) for server in self.nameservers if server.answers]
        await asyncio.gather(*leaving)

    async def _tell_all(self, configs: Iterable[TopicConfig] | None) -> None:
        """Tell each nameserver; wait, up to a limit, for those that answered last time."""
        if self._closing or not self.nameservers:
            return
        awaited: dict[asyncio.Future[None], Nameserver] = {}
        for server in self.nameservers:
            expected = server.answers
            batch = self._tell(server, configs)
            if expected:
                awaited[batch] = server
        if not awaited:
            return
        timeout_s = self._live.current.announce_timeout_ms / 1000
        _, late = await asyncio.wait(awaited, timeout=timeout_s)
        for batch in late:
            server = awaited[batch]
            log.warning("nameserver slow address=%s waited_s=%g", server.address, timeout_s)
            server.answers = False  # until its reply comes nobody waits for it again

    def _tell(
        self, server: Nameserver, configs: Iterable[TopicConfig] | None
    ) -> asyncio.Future[None]:
        """Have one nameserver told of `configs` (None: of every topic); done when it was tried."""
        if configs is None:
            server.everything = True
        else:
            server.pending.update({config.topic_name: config for config in configs})
        if server.batch is None:
            server.batch = asyncio.get_running_loop().create_future()
        if server.worker is None:
            server.worker = self._tasks.start(self._work(server), f"tell {server.address}")
        return server.batch

    async def _work(self, server: Nameserver) -> None:
        try:
            while server.batch is not None:
                batch, server.batch = server.batch, None
                pending, server.pending = server.pending, {}
                full = server.everything or not server.knows_us
                server.everything = False
                try:
                    await self._register(server, None if full else list(pending.values()))
                except Exception:  # those that came meanwhile wait for a round of their own
                    log.exception("registration failed nameserver=%s", server.address)
                finally:
                    batch.set_result(None)
        finally:
            server.worker = None

    async def _register(self, server: Nameserver, configs: Iterable[TopicConfig] | None) -> None:
        """Send all topics, or only `configs` to a nameserver that has the others."""
        every = self._topics
        reply = await self._call(server, self._registration(every if configs is None else configs))
        if reply is not None and reply.code != ResponseCode.SUCCESS and configs is not None:
            reply = await self._call(server, self._registration(every))
        if reply is None:
            return
        server.knows_us = reply.code == ResponseCode.SUCCESS
        if not server.knows_us:
            log.error(
                "register refused nameserver=%s code=%d remark=%s",
                server.address,
                reply.code,
                reply.remark,
            )
        elif reply.body:
            self._take_order_topics(server, reply)

    def _take_order_topics(self, server: Nameserver, reply: Command) -> None:
        try:
            self._topics.mark_order_topics(decode_body(KVTable, reply.body).table)
        except AerobeeError as error:
            log.warning("order topics unreadable nameserver=%s error=%s", server.address, error)

    async def _refresh(self, server: Nameserver) -> None:
        """Register again only where the nameserver is behind (forceRegister=false)."""
        if await self._is_behind(server):
            self._tell(server, None)

    async def _is_behind(self, server: Nameserver) -> bool:
        settings = self._live.current
        header = QueryDataVersionRequest(
            broker_name=settings.broker_name,
            broker_addr=self.address,
            cluster_name=settings.broker_cluster_name,
            broker_id=settings.broker_id,
        )
        version = self._topics.data_version
        reply = await self._call(
            server, _request(RequestCode.QUERY_DATA_VERSION, header, encode_body(version))
        )
        if reply is None or reply.code != ResponseCode.SUCCESS:
            return True
        try:
            if reply.body and decode_body(DataVersion, reply.body) != version:
                return True
            return decode_header(QueryDataVersionReply, reply.ext).changed
        except AerobeeError as error:
            log.warning("version unreadable nameserver=%s error=%s", server.address, error)
            return True

    async def _unregister(self, server: Nameserver) -> None:
        settings = self._live.current
        header = UnregisterBrokerRequest(
            broker_name=settings.broker_name,
            broker_addr=self.address,
            cluster_name=settings.broker_cluster_name,
            broker_id=settings.broker_id,
        )
        await self._call(
            server, _request(RequestCode.UNREGISTER_BROKER, header), UNREGISTER_TIMEOUT_S
        )
        server.knows_us = False

    async def _call(
        self, server: Nameserver, command: Command, timeout_s: float | None = None
    ) -> Command | None:
        """Return the reply, or None (and a log line when that is news) where none came."""
        if timeout_s is None:
            timeout_s = self._live.current.register_broker_timeout_mills / 1000
        try:
            reply = await self._caller.call(server.address, command, timeout_s)
        except (AerobeeError, OSError, TimeoutError) as error:
            if server.answers:
                log.warning("nameserver silent address=%s error=%s", server.address, error)
            server.answers = server.knows_us = False
            return None
        if not server.answers:
            log.info("nameserver answers again address=%s", server.address)
        server.answers = True
        server.heard_on(self._caller.get(server.address))
        return reply

    def _registration(self, configs: Iterable[TopicConfig]) -> Command:
        settings = self._live.current
        permission = settings.broker_permission
        table = {}
        for config in configs:
            if permission & (Perm.READ | Perm.WRITE) != Perm.READ | Perm.WRITE:
                config = msgspec.structs.replace(config, perm=config.perm & permission)
            table[config.topic_name] = config
        ha_host = settings.broker_ip2 or settings.broker_ip1
        header = RegisterBrokerRequest(
            broker_name=settings.broker_name,
            broker_addr=self.address,
            cluster_name=settings.broker_cluster_name,
            ha_server_addr=format_address(ha_host, settings.ha_listen_port),
            broker_id=settings.broker_id,
            enable_acting_master=False,
            compressed=settings.compressed_register,
        )
        body = encode_register_body(
            table,
            self._topics.data_version,
            self.mapped(table) if self.mapped is not None else {},
            compressed=settings.compressed_register,
        )
        crc = zlib.crc32(body) & 0x7FFF_FFFF  # UtilAll.crc32 clears the sign
        return _request(
            RequestCode.REGISTER_BROKER, msgspec.structs.replace(header, body_crc32=crc), body
        )

    def _period_s(self) -> float:
        period_ms = self._live.current.register_name_server_period
        return min(max(period_ms, PERIOD_MS_MIN), PERIOD_MS_MAX) / 1000


def _request(code: int, header: Header, body: bytes = b"") -> Command:
    return Command(code=code, ext=encode_header(header), body=body)
