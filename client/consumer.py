"""A consumer that fetches by itself and hands each message to an async function."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from aerobee.client.background import BackgroundTasks
from aerobee.client.balance import Averagely, Strategy
from aerobee.client.errors import InvalidUse
from aerobee.client.handlers import Handler, HandlerPool, HandlerStatistics, as_handler
from aerobee.client.instance import ClientInstance
from aerobee.client.message import GROUP_CHARACTERS_MAX, MessageQueue, check_name
from aerobee.client.offsets import ConsumeFrom, GroupOffsets, StartingPoint
from aerobee.client.process_queue import ProcessQueue, QueueStatistics
from aerobee.client.pull_loop import PullLoop
from aerobee.client.pulling import Puller
from aerobee.client.rebalance import Ownership, QueuesChanged
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings, PushSettings
from aerobee.client.sharing import parse_namesrv, return_instance, share_instance
from aerobee.client.subscriptions import Subscription, now_ms, parse_subscription
from aerobee.remoting.bodies import ConsumerData
from aerobee.remoting.errors import AerobeeError

log = logging.getLogger(__name__)


class PushStatistics(NamedTuple):
    """A look at a push consumer: its handlers' counters and its queues."""

    handlers: HandlerStatistics
    queues: dict[MessageQueue, QueueStatistics]


class PushConsumer:
    """A member of a clustering group: each message goes to one member (DefaultMQPushConsumer.java).

        consumer = PushConsumer("orders-group", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", handle, tags="new || paid")
        async with consumer:
            await stop.wait()

    A message is done when its handler returns; if the handler raises, or returns
    ConsumeResult.LATER, it gets the message again after `PushSettings.redeliver_delay_ms`, in this
    process and for as long as it fails, and the queue's committed offset stays before it.
    Delivery is at least once: after a crash what was not committed comes again.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str],
        settings: PushSettings | None = None,
        client: ClientSettings | None = None,
        strategy: Strategy | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_timestamp_ms: int | None = None,
    ) -> None:
        """Describe the consumer; nothing happens before `start`.

        `namesrv` is "host:port;host:port" or a sequence. `consume_from` counts only for queues on
        which the group has no offset; `consume_timestamp_ms` (since 1970, default half an hour
        ago) goes with ConsumeFrom.TIMESTAMP. Raises InvalidMessage for a bad group name.
        """
        check_name("group", group, GROUP_CHARACTERS_MAX)
        self.group = group
        self.settings = settings or PushSettings()
        self._client = client or ClientSettings()
        self._namesrv = parse_namesrv(namesrv)
        self._strategy = strategy or Averagely()
        half_an_hour_ago_ms = now_ms() - 30 * 60 * 1000
        self._start = StartingPoint(
            consume_from,
            half_an_hour_ago_ms if consume_timestamp_ms is None else consume_timestamp_ms,
        )
        self._subscriptions: dict[str, Subscription] = {}
        self._handlers: dict[str, Handler] = {}
        self._queues_changed: list[QueuesChanged] = []
        self._suspended = False
        self._instance: ClientInstance | None = None
        self.ownership: Ownership | None = None

    # --- before the start ---

    def subscribe(
        self,
        topic: str,
        handler: Callable[[ReceivedMessage], object],
        *,
        tags: str = "*",
        sql: str | None = None,
    ) -> None:
        """Let `handler` get the topic's messages that carry one of `tags` ("a || b"), or all.

        `handler` is async and gets one message; a plain function runs in a thread. `sql` is an
        SQL92 expression for brokers that allow it (enablePropertyFilter). Raises InvalidUse after
        the start, and for tags that name nothing.
        """
        if self._instance is not None:
            raise InvalidUse("subscribe before the consumer is started")
        self._subscriptions[topic] = parse_subscription(topic, tags, sql)
        self._handlers[topic] = as_handler(handler)

    def on_queues_changed(self, callback: QueuesChanged) -> None:
        """Call `callback(topic, all_queues, my_queues)` whenever this member's share changed."""
        self._queues_changed.append(callback)

    # --- life ---

    async def start(self) -> None:
        """Join the group; messages flow as soon as the queues are shared.

        Raises InvalidUse without subscription, or when started already; nothing if the cluster
        cannot be reached: it is tried again until it can.
        """
        if self._instance is not None:
            raise InvalidUse("the consumer is started already")
        if not self._subscriptions:
            raise InvalidUse(f"group {self.group!r} subscribes to nothing; call subscribe first")
        instance = share_instance(self._namesrv, self._client, self.group)
        self._instance = instance
        self._tasks = BackgroundTasks()
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._pool = HandlerPool(self.settings.concurrency, self.settings.redeliver_delay_ms)
        self._offsets = GroupOffsets(instance, self.group, self._client.offset_timeout_ms)
        self.ownership = Ownership(
            instance,
            self.group,
            self._strategy,
            self._subscriptions,
            find_start=lambda queue: self._start.find(queue, self._offsets),
            begin=self._begin,
            end=self._end,
            idle_max_ms=self.settings.pull.idle_max_ms,
        )
        self.ownership.on_changed += [self._renew_subscription, *self._queues_changed]
        await instance.add_consumer(self)

    async def close(self) -> None:
        """Leave the group: running handlers end, offsets are stored, the other members take over.

        It waits for handlers up to `PushSettings.handover_timeout_ms`, then cancels them.
        """
        instance, self._instance = self._instance, None
        if instance is None:
            return
        try:
            await instance.leave(self)
        finally:
            await self._pool.close()
            await self._tasks.close()
            await return_instance(instance, self.group)

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    def suspend(self) -> None:
        """Pull nothing more until `resume`; what is fetched is still handled."""
        self._suspended = True

    def resume(self) -> None:
        """Go on pulling, at the latest a second from now."""
        self._suspended = False

    # --- looking in ---

    @property
    def client_id(self) -> str:
        """The id by which brokers know this member; empty before the start."""
        return self._instance.client_id if self._instance is not None else ""

    def queues(self) -> list[MessageQueue]:
        """Return the queues that this member owns at the moment, sorted."""
        return sorted(self.ownership.queues) if self.ownership is not None else []

    def statistics(self) -> PushStatistics:
        """Return counters of the handlers and the state of each owned queue."""
        if self.ownership is None:
            return PushStatistics(HandlerStatistics(0, 0, 0, 0, 0), {})
        queues = {at: process.statistics() for at, process in self.ownership.queues.items()}
        return PushStatistics(self._pool.statistics(), queues)

    # --- what the instance asks ---

    def topics(self) -> Iterable[str]:
        """The subscribed topics."""
        return self._subscriptions

    def heartbeat_data(self) -> ConsumerData:
        """This member as heartbeats describe it."""
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where=self._start.consume_from.value,
            subscription_data_set=[each.body() for each in self._subscriptions.values()],
            unit_mode=False,
        )

    async def persist_offsets(self) -> None:
        """Store the offsets of all the owned queues, without waiting for answers."""
        if self.ownership is not None:
            await self._offsets.commit_later(
                {queue: process.committable for queue, process in self.ownership.queues.items()}
            )

    # --- owned queues ---

    def _begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        assert self._instance is not None
        pull = self.settings.pull
        puller = Puller(self._instance.connections, self._instance.routes, self.group, queue, pull)
        loop = PullLoop(
            queue,
            process,
            puller,
            self._subscriptions[queue.topic],
            pull,
            deliver=self._deliver,
            offset_illegal=self._correct,
            hold_ms=lambda: pull.suspended_delay_ms if self._suspended else 0,
        )
        pulling = self._tasks.start(loop.run(), f"pull {queue}")
        if pulling is not None:
            self._pulling[queue] = pulling

    def _deliver(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self._pool.submit(process, self._handlers[messages[0].queue.topic], messages)

    async def _end(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let running handlers end, then store what is done, so that the next owner goes on there.

        What no handler has begun is thrown away: the next owner gets it.
        """
        pulling = self._pulling.pop(queue, None)
        if pulling is not None and pulling is not asyncio.current_task():
            pulling.cancel()
        if not await process.wait_idle(self.settings.handover_timeout_ms / 1000):
            log.warning(
                "handlers still run group=%s queue=%s running=%d",
                self.group,
                queue,
                process.running,
            )
        try:
            await self._offsets.commit(queue, process.committable)
        except AerobeeError as error:
            log.warning("commit failed group=%s queue=%s error=%s", self.group, queue, error)

    async def _correct(self, queue: MessageQueue, offset: int) -> None:
        """Go on from where the broker says: store that offset, drop the queue, take it again."""
        assert self.ownership is not None and self._instance is not None
        process = self.ownership.queues.get(queue)
        if process is not None:
            process.correct(offset)
            await self.ownership.drop(queue)
        self._instance.rebalance_soon()

    def _renew_subscription(
        self, topic: str, queues: list[MessageQueue], mine: list[MessageQueue]
    ) -> None:
        if topic in self._subscriptions and self._instance is not None:
            self._subscriptions[topic].renew()
            self._instance.heartbeat_soon()
