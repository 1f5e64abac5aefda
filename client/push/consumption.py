"""The work on the queues that a push consumer owns: pull loops in, handlers out."""

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from aerobee.client.group.broadcasting import drop_failed, drop_spent
from aerobee.client.group.lock_keeper import LockKeeper
from aerobee.client.group.offsets import GroupOffsets, OffsetStore
from aerobee.client.group.ownership import Ownership
from aerobee.client.group.queue_locks import QueueLocks
from aerobee.client.handlers import Handler, Later
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.flow_control import FlowControl
from aerobee.client.pulls.loop import PullLoop
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.puller import Puller
from aerobee.client.pulls.statistics import SAMPLE_INTERVAL_MS, ConsumeStatistics
from aerobee.client.push.concurrently import HandlerPool
from aerobee.client.push.eager_commits import EagerCommits
from aerobee.client.push.expiry import Expiry
from aerobee.client.push.handling import HandlerStatistics
from aerobee.client.push.orderly import OrderlyPool
from aerobee.client.push.send_back import CONCURRENT_TIMES_MAX, ORDERLY_TIMES_MAX, SendBack
from aerobee.client.push.unreadable import Unreadable
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import PushSettings
from aerobee.client.subscriptions import Subscription
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.net.tasks import Tasks

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance

log = logging.getLogger(__name__)


class Consumption:
    """Fetches and handles every owned queue from `begin` to `end` (DefaultMQPushConsumerImpl.java).

    It lives from the consumer's start to its end. `ownership` is set before the first `begin`;
    `locks` are there for ordered queues of a clustering group.
    """

    ownership: Ownership

    def __init__(
        self,
        instance: "ClientInstance",
        group: str,
        settings: PushSettings,
        subscriptions: dict[str, Subscription],
        handlers: dict[str, Handler],
        offsets: OffsetStore,
        hooks: Hooks,
        *,
        broadcasting: bool,
        ordered: bool,
    ) -> None:
        self.suspended = False
        self.started_ms = wall_clock_ms()
        self.statistics = ConsumeStatistics()
        self.locks: LockKeeper | None = None
        self._instance = instance
        self._group = group
        self._settings = settings
        self._subscriptions = subscriptions
        self._handlers = handlers
        self._offsets = offsets
        self._hooks = hooks
        self._clustering = not broadcasting
        self._ordered = ordered
        self._unknown = Handler(self._not_subscribed)
        self._tasks = Tasks()
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._owned: Counter[str] = Counter()  # queues of each topic
        self._eager = (
            EagerCommits(offsets.commit_or_log, self._locked) if settings.commit == "each" else None
        )
        send_back = self._send_back(CONCURRENT_TIMES_MAX) if self._clustering else None
        self._unreadable = Unreadable(send_back, settings.redeliver_delay_ms)
        self._pool: HandlerPool | OrderlyPool = (
            self._orderly_pool() if ordered else self._concurrent_pool()
        )
        self._tasks.every(SAMPLE_INTERVAL_MS, self._sample, "statistics")

    def _concurrent_pool(self) -> HandlerPool:
        give_back = drop_failed
        if self._clustering:
            give_back = self._send_back(CONCURRENT_TIMES_MAX).give_back
        settled = self._eager.settled if self._eager is not None else None
        pool = HandlerPool(self._group, self._settings, give_back, self._hooks, settled)
        if self._clustering:
            timeout_ms = self._settings.consume_timeout_ms
            expiry = Expiry(pool.running, give_back, timeout_ms)
            self._tasks.every(
                timeout_ms, lambda: expiry.sweep(self.ownership.queues), "expired messages"
            )
        return pool

    def _orderly_pool(self) -> OrderlyPool:
        settings = self._settings
        give_up = drop_spent
        if self._clustering:
            give_up = self._send_back(ORDERLY_TIMES_MAX).send_anew
            locks = QueueLocks(self._instance, self._group, ordered=True)
            self.locks = LockKeeper(locks, settings, self._regained)
            self._tasks.start(self.locks.run(), "locks")
        times_max = settings.max_reconsume_times
        return OrderlyPool(
            self._group,
            settings,
            give_up,
            ORDERLY_TIMES_MAX if times_max < 0 else times_max,
            self._hooks,
            locked=self._locked,
            settled=self._eager.settled if self._eager is not None else None,
        )

    def _send_back(self, times_max: int) -> SendBack:
        given = self._settings.max_reconsume_times
        return SendBack(
            self._instance,
            self._group,
            times_max if given < 0 else given,
            self._settings.send_back_timeout_ms,
        )

    def handled(self) -> HandlerStatistics:
        """Return the counters of the handlers."""
        return self._pool.statistics()

    def offsets(self) -> dict[MessageQueue, int]:
        """Return what may be committed now: nothing of queues that others may have."""
        return {
            queue: process.committable
            for queue, process in self.ownership.queues.items()
            if self._locked(queue)
        }

    async def close(self) -> None:
        """Stop at once what still runs, but for a handler that calls this."""
        async with contextlib.AsyncExitStack() as last:  # each of them, whoever is cancelled
            last.push_async_callback(self._tasks.close)
            last.push_async_callback(self._unreadable.close)
            await self._pool.close()

    def spare_caller(self) -> None:
        """Wait no longer for the handler that calls this, if any."""
        self._pool.spare_caller()

    # --- one queue ---

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Fetch a queue that is ours from now on, and have its messages handled."""
        self._owned[queue.topic] += 1
        if self._eager is not None:
            self._eager.begin(queue, process)
        if self.locks is not None:
            self.locks.begin(queue)
        self._pull(queue, process)

    def pull_anew(self, topic: str) -> None:
        """Pull by the topic's changed subscription at once; what is fetched stays."""
        for queue, process in self.ownership.queues.items():
            if queue.topic == topic and (pulling := self._pulling.pop(queue, None)) is not None:
                pulling.cancel()
                self._pull(queue, process)

    def _pull(self, queue: MessageQueue, process: ProcessQueue) -> None:
        topic, pull = queue.topic, self._settings.pull
        connections, routes = self._instance.connections, self._instance.routes
        loop = PullLoop(
            queue,
            process,
            Puller(
                connections,
                routes,
                self._group,
                queue,
                pull,
                commits=self._clustering,
                carried=self._offsets.carried,
                hooks=self._hooks,
            ),
            self._subscriptions[topic],
            pull,
            deliver=self._deliver,
            deliver_unreadable=self._unreadable.take,
            offset_illegal=self._correct,
            hold_ms=lambda: self._hold_ms(queue),
            flow=FlowControl(
                queue, pull, sharers=lambda: self._owned[topic], ordered=self._ordered
            ),
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
        if not self._owned[queue.topic]:
            del self._owned[queue.topic]
        pulling = self._pulling.pop(queue, None)
        if pulling is not None:
            pulling.cancel()
        if self.locks is not None:
            self.locks.end(queue)
        if not await process.wait_idle(self._settings.handover_timeout_ms / 1000):
            log.warning(
                "handlers still run group=%s queue=%s running=%d",
                self._group,
                queue,
                process.running,
            )
        ours = not process.released and self._locked(queue)
        process.release()
        if self._eager is not None:
            self._eager.end(process)
        self._pool.forget(queue, process)
        if ours:  # else somebody has consumed it after us
            await self._offsets.commit_or_log(queue, process.committable)
        if self.locks is not None:
            self.locks.forget(queue)

    def _hold_ms(self, queue: MessageQueue) -> int:
        """How long the next pull has to wait, in ms."""
        if self.suspended:
            return self._settings.pull.suspended_delay_ms
        return 0 if self._locked(queue) else self._settings.lock_retry_ms

    def _locked(self, queue: MessageQueue) -> bool:
        return self.locks is None or self.locks.trusted(queue)

    async def _regained(self, queue: MessageQueue) -> None:
        """Look whether another member has consumed a queue while its lock was not ours."""
        process = self.ownership.queues.get(queue)
        timeout_ms = self._instance.settings.offset_timeout_ms
        # as a stranger: a member that asks takes the queue, with what it commits from then on
        offsets = GroupOffsets(self._instance.aside, self._group, timeout_ms)
        committed = await offsets.committed(queue)
        if process is None or committed is None or committed <= process.committable:
            return
        log.warning("queue was consumed by another member group=%s queue=%s", self._group, queue)
        process.release()
        if self.ownership.queues.get(queue) is process:
            await self.ownership.drop(queue)
            self._instance.rebalance_soon()

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

    async def _not_subscribed(self, message: ReceivedMessage) -> Later:
        """Give back a message that failed once, and whose topic is subscribed here no more."""
        log.error(
            "no handler for a retried message, giving it back group=%s topic=%s message_id=%s",
            self._group,
            message.topic,
            message.message_id,
        )
        return Later()

    # --- timers ---

    async def _sample(self) -> None:
        self.statistics.keep(self._subscriptions.keys() | self._owned.keys())
        self.statistics.sample()
