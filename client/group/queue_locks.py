"""Locks of queues in the brokers: taken before a queue is consumed in order, given back after."""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aerobee.client.message import MessageQueue
from aerobee.remoting import bodies
from aerobee.remoting.bodies import LockBatchBody, LockBatchReply, decode_body, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import AerobeeError

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance

log = logging.getLogger(__name__)


class QueueLocks:
    """What one group of this client holds in the brokers (RebalanceImpl.lockAll, unlock).

    A broker gives a lock to one client of a group at a time, and takes it back when it was not
    asked for again within 60 s. Aerobee's broker takes an unlock from any clustering member as the
    word that a queue is given up; others hear of it from `ordered` groups alone.
    """

    def __init__(self, instance: "ClientInstance", group: str, *, ordered: bool = False) -> None:
        self._instance = instance
        self._group = group
        self._ordered = ordered

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask for these locks, or for more time with them; return the queues that are ours now.

        A broker that fails or does not answer grants none; that is logged.
        """
        by_address = await self._by_address(queues)
        granted = await asyncio.gather(*(self._lock_at(*each) for each in by_address.items()))
        return set().union(*granted)

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give these queues to whom asks next, and wait for the answers; failures are logged."""
        by_address = await self._by_address(queues)
        await asyncio.gather(*(self._unlock_at(*each) for each in by_address.items()))

    async def _by_address(
        self, queues: Iterable[MessageQueue]
    ) -> dict[str, list[bodies.MessageQueue]]:
        by_address: dict[str, list[bodies.MessageQueue]] = {}
        for queue in sorted(queues):
            try:
                address = await self._instance.routes.broker_address(queue)
            except AerobeeError as error:
                log.warning("no broker for a lock group=%s queue=%s: %s", self._group, queue, error)
            else:
                by_address.setdefault(address, []).append(_wire(queue))
        return by_address

    async def _lock_at(self, address: str, queues: list[bodies.MessageQueue]) -> set[MessageQueue]:
        try:
            reply = await self._instance.connections.request(
                address, RequestCode.LOCK_BATCH_MQ, body=self._body(queues)
            )
            granted = decode_body(LockBatchReply, reply.body).lock_ok_mq_set
        except AerobeeError as error:
            log.warning("lock failed group=%s broker=%s error=%s", self._group, address, error)
            return set()
        except Exception:  # what the other brokers grant counts all the same
            log.exception("lock failed group=%s broker=%s", self._group, address)
            return set()
        asked = {MessageQueue(each.topic, each.broker_name, each.queue_id) for each in queues}
        return asked & {
            MessageQueue(each.topic, each.broker_name, each.queue_id) for each in granted
        }

    async def _unlock_at(self, address: str, queues: list[bodies.MessageQueue]) -> None:
        if not self._ordered and not self._instance.heartbeats.offers_handover(address):
            return
        try:
            await self._instance.connections.request(
                address, RequestCode.UNLOCK_BATCH_MQ, body=self._body(queues)
            )
        except AerobeeError as error:
            log.warning("unlock failed group=%s broker=%s error=%s", self._group, address, error)
        except Exception:
            log.exception("unlock failed group=%s broker=%s", self._group, address)

    def _body(self, queues: list[bodies.MessageQueue]) -> bytes:
        return encode_body(
            LockBatchBody(
                consumer_group=self._group, client_id=self._instance.client_id, mq_set=queues
            )
        )


def _wire(queue: MessageQueue) -> bodies.MessageQueue:
    return bodies.MessageQueue(
        topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id
    )
