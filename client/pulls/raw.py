"""Pulls whose replies stay bytes: for readers that decode many records at a time."""

from typing import NamedTuple

from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.routes import MASTER_ID, RouteCache
from aerobee.client.errors import BrokerRefused, Unavailable
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.puller import STATUS_BY_CODE, PullStatus
from aerobee.remoting.codes import PullSysFlag, RequestCode
from aerobee.remoting.headers._fields import decode_header
from aerobee.remoting.headers.pull import PullMessageReply

_BYTES_MAX = 2**31 - 1  # the broker's own limit is the one that counts


class RawPull(NamedTuple):
    """What a pull brought: `body` holds whole records as the broker's log has them, in order.

    Offsets count messages of the queue; `asked` is the id of the broker that answered, `advised`
    of the one that it says to ask next.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes | memoryview
    asked: int
    advised: int


class RawPuller:
    """Pulls for one group from any queue; joins, commits and holds nothing (PullAPIWrapper.java).

    The group is a name in the broker's statistics: no heartbeat tells of it.
    """

    def __init__(
        self, connections: Connections, routes: RouteCache, group: str, *, timeout_ms: int = 10_000
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._timeout_ms = timeout_ms
        self._same = {
            "consumerGroup": group,
            "sysFlag": str(PullSysFlag.SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "maxMsgBytes": str(_BYTES_MAX),
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }

    async def pull(
        self, queue: MessageQueue, offset: int, messages_max: int, broker_id: int = MASTER_ID
    ) -> RawPull:
        """Ask the replica `broker_id`, or another where there is none, for messages from `offset`.

        The broker answers at once, with at most `messages_max` and as many as its own limits allow.
        Raises BrokerRefused for a code that is no outcome of a pull, Unavailable.
        """
        self._routes.keep(queue.topic)
        found = self._routes.reading_address(queue.broker_name, broker_id)
        if found is None:
            await self._routes.refresh(queue.topic)
            found = self._routes.reading_address(queue.broker_name, broker_id)
        if found is None:
            raise Unavailable(f"no route names broker {queue.broker_name}")
        address, asked = found
        ext = self._same | {
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(messages_max),
            "bname": queue.broker_name,
        }
        reply = await self._connections.call(
            address, RequestCode.PULL_MESSAGE, ext, timeout_ms=self._timeout_ms
        )
        status = STATUS_BY_CODE.get(reply.code)
        if status is None:
            raise BrokerRefused(reply.code, reply.remark, address)
        header = decode_header(PullMessageReply, reply.ext)
        return RawPull(
            status,
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            reply.body,
            asked,
            header.suggest_which_broker_id,
        )
