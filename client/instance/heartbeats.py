"""Tells the brokers which groups are here, and keeps what they answer."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused
from aerobee.client.instance.consumer import Consumer
from aerobee.remoting.bodies import HeartbeatData, ProducerData, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError, NotConnected
from aerobee.remoting.headers.heartbeat import HeartbeatRequest, UnregisterClientRequest
from aerobee.remoting.headers.typed import Header, encode_header
from aerobee.remoting.msgpack_header import EXT_MSGPACK
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

GREETED_AGAIN_S: Final = 1.0  # after a connection was lost; who pulls or sends there is earlier
EXT_HANDOVER: Final = "AEROBEE_HANDOVER"  # in the reply: see HeartbeatReply.handover


class Heartbeats:
    """The presence of one client id at all the brokers that its routes name.

    The first request on every new connection to a broker is a heartbeat; the `on_greeted` callbacks
    are called when that one has been answered (MQClientInstance.sendHeartbeatToAllBroker).
    """

    def __init__(self, client_id: str, brokers: Brokers, tasks: Tasks, timeout_ms: int) -> None:
        self.client_id = client_id  # to be known before the first heartbeat
        self.producers: Counter[str] = Counter()  # clients of each group
        self.consumers: dict[str, Consumer] = {}  # by group
        self.on_greeted: list[Callable[[], None]] = []
        self._connections = brokers.connections
        self._routes = brokers.routes
        self._tasks = tasks
        self._timeout_s = timeout_ms / 1000
        self._greetings: dict[str, asyncio.Task[Any]] = {}
        self._handover: dict[str, Connection] = {}  # the connections on which it was offered
        self._connections.on_connected.append(self._greet)

    async def send_all(self) -> None:
        """Tell every broker which groups are here; failures are logged.

        Producers are announced to masters alone.
        """
        addresses = {
            address
            for brokers in self._routes.brokers.values()
            for broker_id, address in brokers.items()
            if self.consumers or broker_id == MASTER_ID
        }
        if addresses and (self.consumers or self.producers):
            await asyncio.gather(*(self._send(address) for address in sorted(addresses)))

    async def introduce(self, address: str) -> None:
        """Tell one broker which groups are here, connecting if need be; failures are logged."""
        await self._send(address)

    async def unregister(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """Tell every broker that a group has left this client; failures are logged.

        A broker to which there is no connection has noticed that.
        """
        header = self._goodbye(producer_group, consumer_group)
        leaving = [self._unregister_at(address, header) for address in self._connected()]
        await asyncio.gather(*leaving)

    def say_goodbye(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """Tell every broker as `unregister` does, and want no answer: nothing is awaited."""
        ext = encode_header(self._goodbye(producer_group, consumer_group))
        for address in self._connected():
            connection = self._connections.open(address)
            if connection is not None:
                connection.oneway(Command(RequestCode.UNREGISTER_CLIENT, dict(ext)))

    def _goodbye(
        self, producer_group: str | None, consumer_group: str | None
    ) -> UnregisterClientRequest:
        return UnregisterClientRequest(
            client_id=self.client_id,
            producer_group=producer_group,
            consumer_group=consumer_group,
        )

    def _connected(self) -> list[str]:
        """The addresses of brokers that this client speaks to at the moment."""
        addresses = {at for brokers in self._routes.brokers.values() for at in brokers.values()}
        return [each for each in sorted(addresses) if self._connections.open(each) is not None]

    def offers_handover(self, address: str) -> bool:
        """Whether the broker there keeps queues for their owner until it releases them."""
        offered = self._handover.get(address)
        return offered is not None and offered is self._connections.open(address)

    async def _send(self, address: str) -> None:
        try:
            connection = self._connections.open(address)
            if connection is None:
                await self._connections.connect(address)  # which greets
                if (greeting := self._greetings.get(address)) is not None:
                    await asyncio.wait([greeting])
            else:
                await self._beaten(address, connection, self._beat(connection))
        except NotConnected as error:  # which is told by the broker's name, see BrokerNews
            log.debug("heartbeat failed broker=%s error=%s", address, error)
        except AerobeeError as error:
            log.warning("heartbeat failed broker=%s error=%s", address, error)
        except Exception:  # the other brokers have to hear of us all the same
            log.exception("heartbeat failed broker=%s", address)

    def _beat(self, connection: Connection) -> asyncio.Future[Command]:
        """Send a heartbeat before returning; what is returned gets the reply."""
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self.producers],
            consumer_data_set=[consumer.heartbeat_data() for consumer in self.consumers.values()],
        )
        ext = encode_header(HeartbeatRequest(msgpack=True))
        return connection.begin(RequestCode.HEART_BEAT, ext, encode_body(data), self._timeout_s)

    async def _beaten(
        self, address: str, connection: Connection, waiting: asyncio.Future[Command]
    ) -> None:
        reply = await waiting
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerRefused(reply.code, reply.remark, address)
        if reply.ext.get(EXT_MSGPACK) == "true":
            connection.msgpack = True  # from the next request on, on this connection alone
        if reply.ext.get(EXT_HANDOVER) == "true" and not connection.gone:
            if self._handover.get(address) is not connection:
                connection.on_closed.append(lambda gone: self._forget(address, gone))
            self._handover[address] = connection

    def _greet(self, address: str, connection: Connection) -> None:
        """Make a heartbeat the first request on a new connection to a broker.

        The broker forgot the members whose connection was lost; until the heartbeat it would
        refuse their pulls and share their queues among the others. Whoever is no nameserver is a
        broker: routes may have changed since its address was looked up.
        """
        known = any(address in brokers.values() for brokers in self._routes.brokers.values())
        unwanted = not known and address in self._routes.nameservers.addresses
        if unwanted or not (self.consumers or self.producers):
            return
        reply = self._beat(connection)
        greeting = self._tasks.start(self._introduce(address, connection, reply), "greeting")
        if greeting is None:  # this client is closing
            reply.cancel()
            return
        self._greetings[address] = greeting
        greeting.add_done_callback(lambda done: self._greeted(address, done, reply))
        connection.on_closed.append(lambda _: self._lost(address))

    def _lost(self, address: str) -> None:
        """Have a broker that took the members here for gone know better, also where none asks it.

        Others of the group that ask it would take all queues until the next heartbeat.
        """
        if self.consumers:
            self._tasks.start(self._greet_again(address), "greeting after a lost connection")

    async def _greet_again(self, address: str) -> None:
        await asyncio.sleep(GREETED_AGAIN_S)
        named = any(address in brokers.values() for brokers in self._routes.brokers.values())
        if named and self.consumers and self._connections.open(address) is None:
            await self._send(address)

    def _greeted(
        self, address: str, greeting: asyncio.Task[Any], reply: asyncio.Future[Command]
    ) -> None:
        reply.cancel()  # nothing, unless the greeting was cancelled before it began
        if self._greetings.get(address) is greeting:
            del self._greetings[address]

    def _forget(self, address: str, connection: Connection) -> None:
        if self._handover.get(address) is connection:
            del self._handover[address]

    async def _introduce(
        self, address: str, connection: Connection, waiting: asyncio.Future[Command]
    ) -> None:
        try:
            await self._beaten(address, connection, waiting)
        except AerobeeError as error:
            log.warning("heartbeat failed broker=%s error=%s", address, error)
        for callback in self.on_greeted:
            callback()

    async def _unregister_at(self, address: str, header: Header) -> None:
        try:
            await self._connections.request(address, RequestCode.UNREGISTER_CLIENT, header)
        except AerobeeError as error:
            log.warning("unregister failed broker=%s error=%s", address, error)
        except Exception:
            log.exception("unregister failed broker=%s", address)
