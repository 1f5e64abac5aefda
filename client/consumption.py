"""The work on the queues that a push consumer owns: pull loops in, handlers out."""

import asyncio
import itertools
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from aerobee.client.commits import EagerCommits
from aerobee.client.concurrently import HandlerPool, HandlerStatistics
from aerobee.client.consume_statistics import SAMPLE_INTERVAL_MS, ConsumeStatistics
from aerobee.client.expiry import Expiry
from aerobee.client.flow_control import FlowControl
from aerobee.client.handlers import Answer, Handler, Later
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.offsets import GroupOffsets
from aerobee.client.process_queue import ProcessQueue
from aerobee.client.pull_loop import PullLoop
from aerobee.client.pulling import Puller
from aerobee.client.rebalance import Ownership
from aerobee.client.received import ReceivedMessage
from aerobee.client.send_back import CONCURRENT_TIMES_MAX, SendBack
from aerobee.client.settings import PushSettings
from aerobee.client.subscriptions import Subscription
from aerobee.remoting.net.tasks import Tasks

if TYPE_CHECKING:
    from aerobee.client.instance import ClientInstance

log = logging.getLogger(__name__)


class Consumption:
    """Fetches and handles every owned queue from `begin` to `end` (DefaultMQPushConsumerImpl.java).

    It lives from the consumer's start to its end. `ownership` is set before the first `begin`.
    """

    ownership: Ownership

    def __init__(
        self,
        instance: "ClientInstance",
        group: str,
        settings: PushSettings,
        subscriptions: dict[str, Subscription],
        handlers: dict[str, Handler],
        offsets: GroupOffsets,
        hooks: Hooks,
    ) -> None:
        self.suspended = False
        self.statistics = ConsumeStatistics()
        self._instance = instance
        self._group = group
        self._settings = settings
        self._subscriptions = subscriptions
        self._handlers = handlers
        self._offsets = offsets
        self._hooks = hooks
        self._unknown = Handler(self._not_subscribed)
        self._tasks = Tasks()
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._owned: Counter[str] = Counter()  # queues of each topic
        self._eager = EagerCommits(offsets.commit_or_log) if settings.commit == "each" else None
        times_max = settings.max_reconsume_times
        send_back = SendBack(
            instance,
            group,
            CONCURRENT_TIMES_MAX if times_max < 0 else times_max,
            settings.send_back_timeout_ms,
        )
        self._pool = HandlerPool(
            group,
            settings.concurrency,
            settings.redeliver_delay_ms,
            send_back.give_back,
            hooks=hooks,
            consume_timeout_ms=settings.consume_timeout_ms,
            settled=self._eager.settled if self._eager is not None else None,
        )
        self._expiry = Expiry(self._pool.running, send_back.give_back, settings.consume_timeout_ms)
        self._tasks.every(settings.consume_timeout_ms, self._expire, "expired messages")
        self._tasks.every(SAMPLE_INTERVAL_MS, self._sample, "statistics")

    def handled(self) -> HandlerStatistics:
        """Return the counters of the handlers."""
        return self._pool.statistics()

    async def close(self) -> None:
        """Stop at once what still runs."""
        await self._pool.close()
        await self._tasks.close()

    # --- one queue ---

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Fetch a queue that is ours from now on, and have its messages handled."""
        topic, pull = queue.topic, self._settings.pull
        self._owned[topic] += 1
        if self._eager is not None:
            self._eager.begin(queue, process)
        connections, routes = self._instance.connections, self._instance.routes
        loop = PullLoop(
            queue,
            process,
            Puller(connections, routes, self._group, queue, pull, hooks=self._hooks),
            self._subscriptions[topic],
            pull,
            deliver=self._deliver,
            offset_illegal=self._correct,
            hold_ms=lambda: pull.suspended_delay_ms if self.suspended else 0,
            flow=FlowControl(queue, pull, sharers=lambda: self._owned[topic]),
            counters=self.statistics.of(topic),
        )
        pulling = self._tasks.start(loop.run(), f"pull {queue}")
        if pulling is not None:
            self._pulling[queue] = pulling

    async def end(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let running handlers end, then store what is done, so that the next owner goes on there.

        What no handler has begun is thrown away: the next owner gets it. A handler counts as
        running until the broker has answered to what it gave back.
        """
        self._owned[queue.topic] -= 1
        pulling = self._pulling.pop(queue, None)
        if pulling is not None:
            pulling.cancel()
        if not await process.wait_idle(self._settings.handover_timeout_ms / 1000):
            log.warning(
                "handlers still run group=%s queue=%s running=%d",
                self._group,
                queue,
                process.running,
            )
        process.released = True
        if self._eager is not None:
            self._eager.end(process)
        await self._offsets.commit_or_log(queue, process.committable)

    def _deliver(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Hand over what a pull brought; a retry queue holds messages of several topics."""
        queue_topic = messages[0].queue.topic
        counters = self.statistics.of(queue_topic)
        if (handler := self._handlers.get(queue_topic)) is not None:
            self._pool.submit(process, handler, counters, messages)
            return
        for topic, some in itertools.groupby(messages, key=lambda message: message.topic):
            handler = self._handlers.get(topic, self._unknown)
            self._pool.submit(process, handler, counters, list(some))

    async def _correct(self, queue: MessageQueue, offset: int) -> None:
        """Go on from where the broker says: store that offset, drop the queue, take it again."""
        self._pulling.pop(queue, None)  # that is the caller, which must not be cancelled
        process = self.ownership.queues.get(queue)
        if process is not None:
            process.correct(offset)
            await self.ownership.drop(queue)
        self._instance.rebalance_soon()

    async def _not_subscribed(self, message: ReceivedMessage) -> Answer:
        """Give back a message that failed once, and whose topic is subscribed here no more."""
        log.error(
            "no handler for a retried message, giving it back group=%s topic=%s message_id=%s",
            self._group,
            message.topic,
            message.message_id,
        )
        return Later()

    # --- timers ---

    async def _expire(self) -> None:
        await self._expiry.sweep(self.ownership.queues)

    async def _sample(self) -> None:
        self.statistics.sample()
