"""Brokers as a task that writes asks them: this room's one way to what the client has within.

Which queues a topic has and where they end, messages stored under ids of our choice, and which of
them are stored already. Questions are asked until somebody answers; what is to be stored is sent
once, as only `sends.py` knows what a failure leaves behind.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Sequence
from contextlib import aclosing
from typing import Final

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.queue_offsets import QueueOffsets
from aerobee.client.cluster.routes import RouteCache
from aerobee.client.errors import BrokerRefused, RouteMissing
from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.outgoing import Packer, read_reply
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.command import Command
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.message.properties import NAME_SEPARATOR, Property
from aerobee.remoting.net.client import ConnectionPool, refuse_requests
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.patience import Patience
from aerobee.spark.network.pulls import Pulls
from aerobee.spark.offsets import Offsets, QueueKey, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.records import loops
from aerobee.spark.records.cells import payload
from aerobee.spark.records.headers import Records
from aerobee.spark.records.replies import ReplyBuffer, find_records

log = logging.getLogger(__name__)

PRODUCER_GROUP: Final = "SPARK_SINK"  # a name in traces; brokers keep nothing of it
SEND_TIMEOUT_S: Final = 10.0
_usual: Final = ProducerSettings()
_packer: Final = Packer(PRODUCER_GROUP, _usual)


class SinkBrokers:
    """The brokers of a cluster within one event loop; connections stay until `close`.

    What is asked raises ClusterUnreachable where nobody answers for as long as the option allows.
    """

    def __init__(self, address: NetworkAddress) -> None:
        settings = address.client()
        self._address = address
        self._connections = Connections(settings, refuse_requests)
        self._senders = ConnectionPool(tls=settings.tls)
        self._routes = RouteCache(self._connections, address.namesrv)
        brokers = Brokers(self._connections, self._routes)
        self._offsets = QueueOffsets(brokers, settings.offset_timeout_ms)

    async def close(self) -> None:
        """Close the connections."""
        await self._senders.close()
        await self._connections.close()

    def patience(self, what: str) -> Patience:
        """The tries of one thing, as long as the cluster's option allows."""
        return Patience(self._address, what)

    async def queues(
        self, topic: str, known: Container[QueueKey]
    ) -> tuple[tuple[MessageQueue, ...], Offsets]:
        """The topic's queues to write to, and the ends of those that are not known.

        It is created where brokers allow that.
        """
        patience = self.patience(f"finding the queues of topic {topic} failed")
        while True:
            try:
                route = await self._routes.for_sending(
                    topic, _usual.create_topic_key, _usual.default_topic_queues
                )
                there = () if route.assumed else route.write_queues
                new = [queue for queue in there if queue_key(queue) not in known]
                ends = {queue_key(queue): await self._offsets.newest(queue) for queue in new}
            except RouteMissing as error:
                raise ClusterUnreachable(str(error)) from error
            except (Unavailable, BrokerRefused) as error:
                await patience.wait(str(error))
                await self.fresh_queues(topic)
            else:
                return route.write_queues, ends

    async def fresh_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues, asked for anew, as a broker may have moved; none where nobody tells."""
        try:
            route = await self._routes.refresh(topic)
        except (Unavailable, BrokerRefused) as error:
            log.warning("%s", error)
            return ()
        return route.write_queues if route is not None else ()

    async def tail(self, queue: MessageQueue, start: int, patience: Patience) -> QueueRange:
        """What stands in a queue from an offset on."""
        while True:
            try:
                return QueueRange(queue_key(queue), start, await self._offsets.newest(queue))
            except (Unavailable, BrokerRefused, RouteMissing) as error:
                await patience.wait(str(error))
                await self.fresh_queues(queue.topic)

    async def store(
        self, messages: Sequence[Message], ids: Sequence[str], queue: MessageQueue
    ) -> int | None:
        """Store messages of one topic in a queue, several as a batch, a large one compressed.

        Returns the first one's offset, None where it does not stand in the queue yet: a delayed one
        waits in a queue of another topic, whose offset the reply tells. Raises InvalidMessage for
        properties or a batch that are too long, and for names and values with separators;
        Unavailable, BrokerRefused, and ProtocolError for a reply that is nonsense.
        """
        if len(messages) > 1:
            outgoing = _packer.pack_batch(messages, ids)
        else:
            outgoing = _packer.pack(messages[0], ids[0])
        address = await self._routes.broker_address(queue)
        connection = await self._senders.connect(address)
        request = Command(outgoing.code, _packer.fields(outgoing, queue), outgoing.body)
        reply = await connection.call(request, SEND_TIMEOUT_S)
        result = read_reply(reply, outgoing, queue, address)
        delayed = len(messages) == 1 and messages[0].delay_level
        return None if delayed or result.queue != queue else result.queue_offset

    async def stored_ids(self, ranges: Sequence[QueueRange], prefix: str) -> set[str]:
        """The ids of messages in the ranges that begin with `prefix`.

        Messages of others cost their transfer and a look at their properties. What retention has
        deleted is told as a warning. Raises ClusterUnreachable where a queue cannot be read, also
        for want of read queues: what is stored in it would be written again.
        """
        ours = re.compile(f"{Property.UNIQ_KEY}{NAME_SEPARATOR}({prefix}[0-9A-F]*)".encode())
        found: set[str] = set()
        buffer = ReplyBuffer()
        wanted = [each for each in ranges if each.start < each.end]
        reading = Pulls(self._address, wanted, fail_on_data_loss=False, queues_stay=True)
        async with aclosing(reading) as pulls:
            async for replies in pulls.replies():
                data, bounds = buffer.join([each.body for each in replies])
                starts, sizes = find_records(data, bounds)
                if len(starts):
                    records = Records(data, 0, starts, sizes)
                    cells = loops.chosen.ragged(
                        records.data, records.properties_at, records.properties_bytes
                    )
                    properties, _ = payload(cells)
                    found.update(each.decode() for each in ours.findall(properties.tobytes()))
        return found


def queue_key(queue: MessageQueue) -> QueueKey:
    """The queue as Spark's side names it."""
    return QueueKey(queue.broker_name, queue.topic, queue.queue_id)
