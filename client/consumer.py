"""A consumer that fetches by itself and hands each message to an async function."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from aerobee.client.balance import Strategy
from aerobee.client.errors import InvalidUse
from aerobee.client.handlers import Handler, HandlerPool, HandlerStatistics, as_handler
from aerobee.client.membership import GroupMember
from aerobee.client.message import MessageQueue
from aerobee.client.offsets import ConsumeFrom
from aerobee.client.process_queue import ProcessQueue, QueueStatistics
from aerobee.client.pull_loop import PullLoop
from aerobee.client.pulling import Puller
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings, PushSettings
from aerobee.client.sharing import return_instance
from aerobee.client.subscriptions import parse_subscription
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)


class PushStatistics(NamedTuple):
    """A look at a push consumer: its handlers' counters and its queues."""

    handlers: HandlerStatistics
    queues: dict[MessageQueue, QueueStatistics]


class PushConsumer(GroupMember):
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
        super().__init__(
            group,
            namesrv=namesrv,
            client=client,
            strategy=strategy,
            consume_from=consume_from,
            consume_timestamp_ms=consume_timestamp_ms,
        )
        self.settings = settings or PushSettings()
        self._handlers: dict[str, Handler] = {}
        self._suspended = False

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

    # --- life ---

    async def start(self) -> None:
        """Join the group; messages flow as soon as the queues are shared.

        Raises InvalidUse without subscription, or when started already; BrokerRefused for an SQL92
        expression that the broker cannot read. A cluster that cannot be reached raises nothing: it
        is tried again until it can.
        """
        if not self._subscriptions:
            raise InvalidUse(f"group {self.group!r} subscribes to nothing; call subscribe first")
        instance = self._instance = await self._share_instance()
        self._tasks = Tasks()
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._pool = HandlerPool(self.settings.concurrency, self.settings.redeliver_delay_ms)
        idle_max_ms = self.settings.pull.idle_max_ms
        self.ownership = self._own(instance, self._begin, self._end, idle_max_ms)
        await instance.add_consumer(self)

    async def close(self) -> None:
        """Leave the group: running handlers end, offsets are stored, the other members take over.

        It waits for handlers up to `PushSettings.handover_timeout_ms`, then cancels them.
        """
        instance = self._instance
        if instance is None or self._leaving:
            return
        self._leaving = True
        try:
            await instance.leave(self)
        finally:
            self._instance, self._leaving = None, False
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
        if pulling is not None:
            pulling.cancel()
        if not await process.wait_idle(self.settings.handover_timeout_ms / 1000):
            log.warning(
                "handlers still run group=%s queue=%s running=%d",
                self.group,
                queue,
                process.running,
            )
        await self._offsets.commit_or_log(queue, process.committable)

    async def _correct(self, queue: MessageQueue, offset: int) -> None:
        """Go on from where the broker says: store that offset, drop the queue, take it again."""
        assert self.ownership is not None and self._instance is not None
        self._pulling.pop(queue, None)  # that is the caller, which must not be cancelled
        process = self.ownership.queues.get(queue)
        if process is not None:
            process.correct(offset)
            await self.ownership.drop(queue)
        self._instance.rebalance_soon()
