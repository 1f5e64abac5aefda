"""The work on the queues that a push consumer owns: pull loops in, handlers out."""

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aerobee.client.group.locks import GroupLocks, LockKeeper
from aerobee.client.group.member import Membership
from aerobee.client.group.offsets import GroupOffsets, OffsetStore
from aerobee.client.group.ownership import Ownership
from aerobee.client.handlers import Handler, Later
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.flow_control import FlowControl
from aerobee.client.pulls.loop import PullLoop
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.puller import Puller, PullTerms
from aerobee.client.pulls.statistics import SAMPLE_INTERVAL_MS, ConsumeStatistics
from aerobee.client.push.concurrently import HandlerPool, MessageExpiry
from aerobee.client.push.failures import DropFailed, Failures, SendBack, Unreadable
from aerobee.client.push.handling import HandlerStatistics, HandlingTerms
from aerobee.client.push.orderly import OrderlyPool
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)


class Consumption:
    """Fetches and handles every owned queue from `begin` to `end` (DefaultMQPushConsumerImpl.java).

    It lives from the consumer's start to its end. `ownership` is set before the first `begin`;
    a `lock_keeper` is there for ordered queues of a clustering group.
    """

    ownership: Ownership

    def __init__(
        self,
        member: Membership,
        terms: HandlingTerms,
        handlers: Mapping[str, Handler],
        offsets: OffsetStore,
        locks: GroupLocks,
    ) -> None:
        settings = terms.settings
        self.suspended = False
        self.started_ms = wall_clock_ms()
        self.statistics = ConsumeStatistics()
        self.lock_keeper = LockKeeper(locks, settings, self._regained) if locks.required else None
        self._member = member
        self._instance = member.instance
        self._group = member.group
        self._terms = terms
        self._settings = settings
        self._handlers = handlers
        self._offsets = offsets
        self._pull_terms = PullTerms(
            member.group,
            settings.pull,
            terms.hooks,
            carried=None if member.broadcasting else offsets.carried,
        )
        self._unknown = Handler(self._not_subscribed)
        self._tasks = Tasks()
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._owned: Counter[str] = Counter()  # queues of each topic
        self._eager = (
            EagerCommits(offsets.commit_or_log, self._locked) if settings.commit == "each" else None
        )
        failures: Failures = (
            DropFailed(settings)
            if member.broadcasting
            else SendBack(member, settings, ordered=terms.ordered)
        )
        if terms.hooks.settle and not member.broadcasting:
            from aerobee.client.push.watched import WatchedFailures  # it costs who wants it

            failures = WatchedFailures(failures, member.group, terms.hooks)
        self._unreadable = Unreadable(failures, settings.redeliver_delay_ms)
        self._pool = self._make_pool(failures)
        if self.lock_keeper is not None:
            self._tasks.start(self.lock_keeper.run(), "locks")
        self._tasks.every(SAMPLE_INTERVAL_MS, self._sample, "statistics")

    def _make_pool(self, failures: Failures) -> HandlerPool | OrderlyPool:
        settled = self._eager.settled if self._eager is not None else None
        if self._terms.ordered:
            return OrderlyPool(self._terms, failures, self._locked, settled)
        pool = HandlerPool(self._terms, failures, settled)
        if not self._member.broadcasting:
            timeout_ms = self._settings.consume_timeout_ms
            expiry = MessageExpiry(pool.running, failures, timeout_ms)
            self._tasks.every(
                timeout_ms, lambda: expiry.sweep(self.ownership.queues), "expired messages"
            )
        return pool

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

    async def may_take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Those whose locks are granted, where locks are needed."""
        return set(queues) if self.lock_keeper is None else await self.lock_keeper.take(queues)

    async def find_start(self, queue: MessageQueue) -> int:
        """Return where to begin a queue."""
        return await self._member.start.find(queue, self._offsets)

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Fetch a queue that is ours from now on, and have its messages handled."""
        self._owned[queue.topic] += 1
        if self._eager is not None:
            self._eager.begin(queue, process)
        if self.lock_keeper is not None:
            self.lock_keeper.begin(queue)
        self._pull(queue, process)

    def pull_anew(self, topic: str) -> None:
        """Pull by the topic's changed subscription at once; what is fetched stays."""
        for queue, process in self.ownership.queues.items():
            if queue.topic == topic and (pulling := self._pulling.pop(queue, None)) is not None:
                pulling.cancel()
                self._pull(queue, process)

    def _pull(self, queue: MessageQueue, process: ProcessQueue) -> None:
        topic = queue.topic
        puller = Puller(
            self._instance.brokers, self._pull_terms, queue, self._member.subscriptions[topic]
        )
        flow = FlowControl(
            queue,
            self._settings.pull,
            sharers=lambda: self._owned[topic],
            ordered=self._terms.ordered,
        )
        loop = PullLoop(process, puller, self, flow, self.statistics.of(topic))
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
        if self.lock_keeper is not None:
            self.lock_keeper.end(queue)
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
        if self.lock_keeper is not None:
            self.lock_keeper.forget(queue)

    def hold_ms(self, queue: MessageQueue) -> int:
        """How long the next pull has to wait, in ms."""
        if self.suspended:
            return self._settings.pull.suspended_delay_ms
        return 0 if self._locked(queue) else self._settings.lock_retry_ms

    def _locked(self, queue: MessageQueue) -> bool:
        return self.lock_keeper is None or self.lock_keeper.trusted(queue)

    async def _regained(self, queue: MessageQueue) -> None:
        """Look whether another member has consumed a queue while its lock was not ours."""
        process = self.ownership.queues.get(queue)
        timeout_ms = self._instance.settings.offset_timeout_ms
        # as a stranger: a member that asks takes the queue, with what it commits from then on
        offsets = GroupOffsets(self._instance.as_stranger, self._group, timeout_ms)
        committed = await offsets.committed(queue)
        if process is None or committed is None or committed <= process.committable:
            return
        log.warning("queue was consumed by another member group=%s queue=%s", self._group, queue)
        process.release()
        if self.ownership.queues.get(queue) is process:
            await self.ownership.drop(queue)
            self._instance.rebalance_soon()

    def deliver(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Hand over what a pull brought; a retry queue holds messages of several topics."""
        queue_topic = messages[0].queue.topic
        counters = self.statistics.of(queue_topic)
        if (handler := self._handlers.get(queue_topic)) is not None:
            self._pool.submit(process, handler, counters, messages)
            return
        for topic, some in itertools.groupby(messages, key=lambda message: message.topic):
            handler = self._handlers.get(topic, self._unknown)
            self._pool.submit(process, handler, counters, list(some))

    def deliver_unreadable(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """See to what a pull brought and cannot be read."""
        self._unreadable.take(process, messages)

    async def correct(self, queue: MessageQueue, offset: int) -> None:
        """Go on from where the broker says: store that offset, drop the queue, take it again.

        What was fetched and is not done is not passed: where it has expired in the broker it is
        handled all the same; where the log is shorter than it was, what is left of it comes again.
        """
        self._pulling.pop(queue, None)  # that is the caller, which must not be cancelled
        process = self.ownership.queues.get(queue)
        if process is not None:
            asked = process.next_offset
            expired = asked < offset and process.count and await self._expired(queue, asked)
            if self.ownership.queues.get(queue) is not process:
                return  # lost meanwhile
            if expired:
                process.skip_to(offset)
                self._pull(queue, process)
                return
            process.correct(offset if asked < offset else min(offset, process.committable))
            await self.ownership.drop(queue)
        self._instance.rebalance_soon()

    async def _expired(self, queue: MessageQueue, offset: int) -> bool:
        """Whether the broker has deleted the message there; False where it does not say."""
        try:
            return offset < await self._offsets.oldest(queue)
        except AerobeeError:
            return False

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
        self.statistics.keep(self._member.subscriptions.keys() | self._owned.keys())
        self._pool.book()
        self.statistics.sample()


class EagerCommits:
    """Stores a queue's offset after each handler and waits for the answer.

    The worker goes on when the broker has it, so that after a crash only running handlers, and
    what was done behind the oldest of them, come again. Handlers that end while a commit of their
    queue is on its way share the next one. Nothing is stored while `locked` says no: another
    member may have the queue, and have got further.
    """

    def __init__(
        self,
        commit: Callable[[MessageQueue, int], Awaitable[None]],
        locked: Callable[[MessageQueue], bool],
    ) -> None:
        self._commit = commit
        self._locked = locked
        self._queues: dict[ProcessQueue, tuple[MessageQueue, asyncio.Lock]] = {}
        self._committed: dict[ProcessQueue, int] = {}

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Commit for this queue from now on."""
        self._queues[process] = queue, asyncio.Lock()
        self._committed[process] = process.committable

    def end(self, process: ProcessQueue) -> None:
        """Commit for this queue no more."""
        self._queues.pop(process, None)
        self._committed.pop(process, None)

    async def settled(self, process: ProcessQueue) -> None:
        """Store how far a queue got, unless it is lost: its last offset is stored at the end."""
        entry = self._queues.get(process)
        if entry is None:
            return
        queue, turn = entry
        async with turn:
            offset = process.committable
            if process.dropped or offset <= self._committed.get(process, offset):
                return
            if self._locked(queue):
                self._committed[process] = offset
                await self._commit(queue, offset)
