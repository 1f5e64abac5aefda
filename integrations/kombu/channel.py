"""A channel: what Celery publishes, consumes, acknowledges and rejects."""

import logging
import time
from collections import deque
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from kombu.transport import virtual
from kombu.utils.uuid import uuid

from aerobee.client.errors import ClientError, InvalidUse
from aerobee.integrations.kombu import payload
from aerobee.integrations.kombu.deliveries import Delivery, Demand
from aerobee.integrations.kombu.payload import Payload
from aerobee.integrations.kombu.topic_source import TopicSource

if TYPE_CHECKING:
    from aerobee.integrations.kombu.transport import Transport

log = logging.getLogger(__name__)

AHEAD_MAX: Final = 256
"""Messages in a channel's hands where no prefetch count says how many there may be."""
GET_S: Final = 5.0
"""How long `basic_get` waits for what the topic has and this member has not got yet."""
LOOK_S: Final = 0.05


class QoS(virtual.QoS):
    """Counts what a channel has delivered; what is not acknowledged stays uncommitted."""

    channel: "TaskChannel"

    def append(self, message: Any, delivery_tag: str) -> None:
        """Keep a message until it is acknowledged or rejected."""
        super().append(message, delivery_tag)
        if delivery_tag not in self.channel.handed:  # it was acknowledged before it was kept
            self._quick_ack(delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Let the queue's offset pass a message, once it passes those before it."""
        delivery = self.channel.handed.pop(delivery_tag, None)
        super().ack(delivery_tag)
        if delivery is not None:
            delivery.acknowledge()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Have a message delivered again at once, to whichever worker, or drop it."""
        if requeue and (delivery := self.channel.handed.get(delivery_tag)) is not None:
            self.channel.give_back(delivery)
        self.ack(delivery_tag)

    def restore_unacked(self) -> list[tuple[BaseException, Any]]:
        """Have all that is not acknowledged delivered again, to whichever worker.

        Where that cannot be said the messages stay uncommitted, and come again by themselves.
        """
        for tag in list(self.channel.handed):
            try:
                self.reject(tag, requeue=True)
            except ClientError as error:
                log.warning("not acknowledged, comes again later: %s", error)
        self._flush()
        return []

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Have it delivered again when the channel ends, unless that is another process's."""
        self._on_collect.cancel()
        if self.channel.do_restore and not self.channel.is_foreign():
            self.restore_unacked()


class TaskChannel(virtual.Channel):
    """Celery's queues are topics of which a group shares the messages.

    Queues that end with their consumer (`auto_delete`, `exclusive`) and are bound to an exchange
    have no topic: they hear what is published to the exchange from their declaration on.
    """

    QoS = QoS
    supports_fanout = True
    do_restore = True
    connection: "Transport"

    def __init__(self, connection: "Transport", **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self.handed: dict[str, Delivery] = {}  # by delivery tag: in the worker's hands
        self._sources: dict[str, TopicSource] = {}
        self._no_ack: set[str] = set()
        self._getting: set[str] = set()

    def is_foreign(self) -> bool:
        """Whether this is the copy of a parent's channel, in the child of a fork."""
        return self.connection is None or self.connection.is_foreign()

    # --- publishing ---

    def basic_publish(
        self, message: Payload, exchange: str, routing_key: str, **kwargs: Any
    ) -> None:
        """Store a message; once this returns a broker has it.

        To queues that are bound here, and of a fanout exchange, or where none is bound, to all who
        listen to it elsewhere.
        """
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange:
            self._put(routing_key, message)
            return
        kept = [
            queue
            for queue in self._lookup(exchange, routing_key)
            if queue and queue not in self.connection.transient
        ]
        for queue in kept:
            self._put(queue, message)
        if not kept or self.typeof(exchange).type == "fanout":
            self._put_exchange(exchange, message)

    def _put(self, queue: str, message: Payload, **kwargs: Any) -> None:
        topic = self._topic(queue)
        self.connection.link.put(payload.packed(topic, message, self.connection.options))

    def _put_exchange(self, exchange: str, message: Payload) -> None:
        topic = self.connection.exchange_topic(exchange)
        self.connection.link.put(payload.packed(topic, message, self.connection.options))

    def give_back(self, delivery: Delivery) -> None:
        """Send a message again, as it came, and be done with it; raises what `send` does."""
        message, topic = delivery.message, delivery.source.topic
        if not delivery.done():
            again = payload.again(topic, payload.unpacked(message), message)
            self.connection.link.put(again)
            delivery.acknowledge()

    # --- queues ---

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        if kwargs.get("auto_delete") or kwargs.get("exclusive"):
            self.connection.transient.setdefault(queue, deque(maxlen=payload.WAITING_MAX))
        else:
            self._topic(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        if queue in self.connection.transient:
            return True
        return self.connection.link.has_topic(self.connection.names.topic(queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        if queue in self.connection.transient:
            self.connection.follow(exchange)

    def _size(self, queue: str) -> int:
        waiting = self.connection.transient.get(queue)
        if waiting is not None:
            return len(waiting)
        names = self.connection.names
        return self.connection.link.backlog(names.topic(queue), names.group(queue))

    def _purge(self, queue: str) -> int:
        """Let the group go on behind all that the queue has, and return how much that was."""
        waiting = self.connection.transient.get(queue)
        if waiting is not None:
            size = len(waiting)
            waiting.clear()
            return size
        link, source = self.connection.link, self._source(queue)
        size = link.skip_all(source.topic, source.group)
        source.skip(link.newest(source.topic))
        self._leave_unused(queue)
        return size

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        """Forget a queue: one with a topic is purged, and its topic stays."""
        super().queue_delete(queue, if_unused=if_unused, if_empty=if_empty, **kwargs)
        self.connection.transient.pop(queue, None)

    # --- consuming ---

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any
    ) -> None:
        """Deliver a queue's messages to `callback` from now on."""
        if no_ack:
            self._no_ack.add(queue)
        else:
            self._no_ack.discard(queue)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        if not self._listens(queue):
            self._source(queue).make_room()

    def basic_cancel(self, consumer_tag: str) -> None:
        """Deliver no more; others get what was not delivered, unless something is still at work."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and not self.is_foreign():
            self._leave_unused(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Return one message, or None where the queue has none that this process could have."""
        if self._listens(queue):
            return super().basic_get(queue, no_ack=no_ack, **kwargs)
        self._getting.add(queue)
        try:
            self._wait_for_one(queue)
            message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        finally:
            self._getting.discard(queue)
        if message is not None and no_ack:  # it is not counted among what is in hand
            self.handed.pop(message.delivery_tag).acknowledge()
        return message

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Have up to `prefetch_count` messages in hand; 0: as many as come."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self._room_changed()

    def close(self) -> None:
        """End all consuming: what is not acknowledged is delivered again."""
        transport, foreign = self.connection, self.is_foreign()
        super().close()
        sources, self._sources = self._sources, {}
        for source in sources.values():
            source.close()
        if transport is not None and not foreign:
            transport.arrivals.tell()

    # --- within ---

    def _get(self, queue: str, timeout: float | None = None) -> Payload:
        """Return the next message that is to be delivered; raises Empty."""
        if self._listens(queue):
            return self._heard(queue)
        source = self._source(queue)
        while True:
            try:
                delivery = source.arrived.popleft()
            except IndexError:
                raise Empty from None
            body = self._opened(delivery)
            if body is not None:
                return self._tagged(body, delivery, queue)

    def _heard(self, queue: str) -> Payload:
        while True:
            try:
                message, body = self.connection.transient[queue].popleft()
            except (IndexError, KeyError):
                raise Empty from None
            if not payload.is_over(message):
                return self._tagged(body, None, queue)

    def _opened(self, delivery: Delivery) -> Payload | None:
        """Read what has arrived; None where it is over, goes on to its time, or is not ours."""
        message, source = delivery.message, delivery.source
        if delivery.done():  # given back, while it waited
            return None
        if payload.is_over(message):
            delivery.acknowledge()
            return None
        try:
            body = payload.unpacked(message)
            early = payload.is_early(message)
        except ValueError as error:
            log.error("left out: %r error=%s", message, error)
            delivery.acknowledge()
            return None
        if early:
            try:
                options = self.connection.options
                self.connection.link.put(payload.sent_on(source.topic, body, message, options))
            except ClientError as error:
                log.warning("the worker waits itself for its time: %r error=%s", message, error)
                return body
            delivery.acknowledge()
            return None
        return body

    def _tagged(self, body: Payload, delivery: Delivery | None, queue: str) -> Payload:
        tag = body["properties"]["delivery_tag"] = uuid()
        if delivery is not None and queue in self._no_ack and queue not in self._getting:
            delivery.acknowledge()
        elif delivery is not None:
            self.handed[tag] = delivery
        return body

    def _wait_for_one(self, queue: str) -> None:
        deadline_s = time.monotonic() + GET_S
        arrivals = self.connection.arrivals
        while time.monotonic() < deadline_s:
            seen, source = arrivals.count, self._source(queue)
            source.make_room()
            try:
                more = source.has_more()
            except InvalidUse:
                if not source.left:
                    raise
                continue  # it had just left, for nobody asked for anything
            if source.arrived:
                return
            arrivals.wait(seen, LOOK_S)  # what was taken is on its way here
            if not more:
                return

    def _leave_unused(self, queue: str) -> None:
        """Leave a queue to others at once, unless somebody consumes it, or works on what it had."""
        source = self._sources.get(queue)
        if source is None or self._wanted(queue):
            return
        if all(each.source is not source for each in list(self.handed.values())):
            del self._sources[queue]
            source.close()

    def _listens(self, queue: str) -> bool:
        """Whether a queue has no topic of its own, but hears exchanges."""
        return queue in self.connection.transient and bool(self.state.queue_index.get(queue))

    def _topic(self, queue: str) -> str:
        topic = self.connection.names.topic(queue)
        self.connection.link.ensure_topic(topic, self.connection.options.queues)
        return topic

    def _source(self, queue: str) -> TopicSource:
        source = self._sources.get(queue)
        if source is not None and source.left:
            source.close()
            source = None
        if source is None:
            transport = self.connection
            room = Demand(lambda: self._room(queue), lambda: self._wanted(queue))
            names = self._topic(queue), transport.names.group(queue)
            source = TopicSource(
                names,
                transport.link,
                transport.options,
                room,
                transport.arrivals,
            )
            source.start()
            self._sources[queue] = source
        return source

    def _room(self, queue: str) -> int:
        """How many more messages of a queue may arrive; asked in the loop's thread."""
        if not self._wanted(queue):
            return 0
        waiting = sum(len(source.arrived) for source in list(self._sources.values()))
        return (self.qos.prefetch_count or AHEAD_MAX) - len(self.handed) - waiting

    def _wanted(self, queue: str) -> bool:
        return queue in self._active_queues or queue in self._getting

    def _room_changed(self) -> None:
        for source in self._sources.values():
            source.make_room()
