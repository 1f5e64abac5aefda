"""How the brokers of a fake cluster keep queues for their owners: locks, and hand-overs.

With `FakeBroker.handover` a broker holds a request for the offset of an owned queue for
`handover_wait_s`, then says that it is not given up yet, as Aerobee's does.
"""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from aerobee.remoting.bodies import (
    LockBatchBody,
    LockBatchReply,
    QueueBody,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers import offsets
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

if TYPE_CHECKING:
    from support.stand_ins.fake_cluster import FakeBroker

routes: Routes["FakeBroker"] = Routes("fake ownership")
GroupQueue = tuple[str, str, int]


class Owners:
    """Who holds which queue of a group, in one broker."""

    def __init__(self) -> None:
        self.locks: dict[tuple[str, QueueBody], str] = {}
        self.owner: dict[GroupQueue, Connection] = {}
        self.released: list[GroupQueue] = []  # by 42, in order
        self._changed: dict[GroupQueue, asyncio.Event] = defaultdict(asyncio.Event)

    def release(self, queue: GroupQueue, connection: Connection) -> None:
        """Let the next one have a queue."""
        if self.owner.get(queue) is connection:
            del self.owner[queue]
            self._changed[queue].set()

    def release_all(self, connection: Connection, group: str | None = None) -> None:
        """Let the next ones have all the queues of a member that is gone."""
        for queue in list(self.owner):
            if group is None or queue[0] == group:
                self.release(queue, connection)

    async def take(self, queue: GroupQueue, connection: Connection, seconds: float) -> bool:
        """Make a member the owner as soon as there is no other; False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self.owner.setdefault(queue, connection) is not connection:
                    self._changed[queue].clear()
                    await self._changed[queue].wait()
        except TimeoutError:
            return False
        return True


@routes.on(RequestCode.QUERY_CONSUMER_OFFSET, offsets.QueryConsumerOffsetRequest)
async def query_offset(
    broker: "FakeBroker", request: Request[offsets.QueryConsumerOffsetRequest]
) -> Outcome:
    """Return the committed offset, to a member of a group only when the queue is free."""
    header = request.header
    key = header.consumer_group, header.topic, header.queue_id
    member = request.connection in broker.members[header.consumer_group]
    if (
        broker.handover
        and member
        and not await broker.owners.take(key, request.connection, broker.handover_wait_s)
    ):
        raise RequestError(ResponseCode.HANDOVER_PENDING, "not given up yet")
    if key not in broker.committed:
        raise RequestError(ResponseCode.QUERY_NOT_FOUND, "Not found")
    return offsets.OffsetReply(offset=broker.committed[key])


@routes.on(RequestCode.LOCK_BATCH_MQ, NoHeader)
def lock(broker: "FakeBroker", request: Request[NoHeader]) -> Outcome:
    """Give the locks that no other client has."""
    body = decode_body(LockBatchBody, request.command.body)
    locks = broker.owners.locks
    granted = [
        queue
        for queue in body.mq_set
        if locks.setdefault((body.consumer_group, queue), body.client_id) == body.client_id
    ]
    return Reply(body=encode_body(LockBatchReply(lock_ok_mq_set=granted)))


@routes.on(RequestCode.UNLOCK_BATCH_MQ, NoHeader)
def unlock(broker: "FakeBroker", request: Request[NoHeader]) -> Outcome:
    """Take locks back, and let the next members have the queues."""
    body = decode_body(LockBatchBody, request.command.body)
    for queue in body.mq_set:
        if broker.owners.locks.get((body.consumer_group, queue)) == body.client_id:
            del broker.owners.locks[body.consumer_group, queue]
        key = body.consumer_group, queue.topic, queue.queue_id
        broker.owners.released.append(key)
        broker.owners.release(key, request.connection)
    return Reply()
