"""The brokers of a cluster as its nameservers know them, and making topics on them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeVar

from aerobee.client.cluster.address_server import parse_namesrv
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.nameservers import Nameservers
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused, whole_number
from aerobee.client.settings import ClientSettings, given
from aerobee.remoting.bodies import Body, ClusterInfo, decode_body
from aerobee.remoting.codes import Perm, RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.headers.topics import CreateTopicRequest
from aerobee.remoting.headers.typed import Header
from aerobee.remoting.net.client import refuse_requests
from aerobee.remoting.words import AUTO_CREATE_TOPIC

B = TypeVar("B", bound=Body)


class BrokerEntry(NamedTuple):
    """One broker process as the nameservers know it; entries sort by cluster, name and id."""

    cluster: str
    name: str
    broker_id: int  # 0 is the master
    address: str  # "ip:port"


class Cluster:
    """Finds the brokers of a cluster and makes topics on them (MQAdmin.java).

        async with Cluster("127.0.0.1:9876") as cluster:
            await cluster.create_topic("orders", queues=8)

    Nameservers are asked one after the other until one answers, the next one after half a second of
    silence: they all know the same. Who answered last is asked first. Every call raises Unavailable
    where nobody answers and BrokerRefused for a refusal, with its code and text.
    """

    def __init__(
        self, namesrv: str | Sequence[str], *, settings: ClientSettings | None = None
    ) -> None:
        """Describe whom to ask, "host:port;host:port"; connections are made when needed.

        The URL of an address server does as well: it is asked before the first call, and after
        none of those that it named has answered. `settings` says how long a call may take
        (`api_timeout_ms`), how to encrypt (`tls`) and for which unit to ask (`unit_name`).
        """
        settings = given("settings", settings, ClientSettings)
        self.asked = namesrv
        self.settings = settings
        self.connections = Connections(settings, refuse_requests)
        self._nameservers = Nameservers(
            self.connections, parse_namesrv(namesrv), settings.unit_name, in_order=True
        )
        self.namesrv = self._nameservers.addresses

    async def close(self) -> None:
        """Close every connection."""
        await self.connections.close()

    async def __aenter__(self) -> Self:
        """Nothing is needed before the first call."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def brokers(self) -> list[BrokerEntry]:
        """List the brokers that have registered, sorted."""
        info = await self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo)
        return sorted(
            BrokerEntry(data.cluster, name, broker_id, address)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        )

    async def masters(self) -> list[BrokerEntry]:
        """List the brokers that take writes, sorted."""
        return [broker for broker in await self.brokers() if broker.broker_id == MASTER_ID]

    async def create_topic(
        self,
        topic: str,
        queues: int,
        *,
        perm: int = Perm.READ | Perm.WRITE,
        attributes: Mapping[str, str] | None = None,
    ) -> list[BrokerEntry]:
        """Make a topic, or give it other queues, on every master; return these brokers.

        `queues` is the number on each of them, to read and to write; `attributes` get these values,
        such as `{"aerobee.dedup.seconds": "120"}`, and others stay. Clients find the topic when
        this returns. Raises Unavailable where no master has registered; where one broker refuses,
        those before it have the topic.
        """
        queues = whole_number("queues", queues)
        masters = await self.masters()
        if not masters:
            raise Unavailable(f"no broker has registered with {';'.join(self.namesrv)}")
        header = CreateTopicRequest(
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            attributes=",".join(f"+{name}={value}" for name, value in (attributes or {}).items()),
        )
        for master in masters:
            await self.connections.request(
                master.address, RequestCode.UPDATE_AND_CREATE_TOPIC, header
            )
        return masters

    async def ask(self, code: int, body_type: type[B], header: Header | None = None) -> B:
        """Return what the first nameserver says that answers; raises Unavailable if none does."""

        async def question(address: str) -> Command | BrokerRefused:
            try:
                return await self.connections.request(address, code, header)
            except BrokerRefused as error:  # which is an answer, and the others' as well
                return error

        try:
            reply = await self._nameservers.ask(question)
        except Unavailable:
            if self._nameservers.address_server is not None:
                self.namesrv.clear()  # they may have moved
            raise
        if isinstance(reply, BrokerRefused):
            raise reply
        return decode_body(body_type, reply.body)
