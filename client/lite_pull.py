"""A consumer that the user polls: its queues are shared with the group, or given."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aerobee.client.balance import Strategy
from aerobee.client.errors import InvalidUse
from aerobee.client.fetched import Fetched
from aerobee.client.membership import GroupMember
from aerobee.client.message import MessageQueue
from aerobee.client.offsets import ConsumeFrom
from aerobee.client.process_queue import ProcessQueue, QueueStatistics
from aerobee.client.pull_loop import PullLoop
from aerobee.client.pulling import Puller
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings, LitePullSettings
from aerobee.client.sharing import return_instance
from aerobee.client.subscriptions import Subscription, parse_subscription
from aerobee.remoting.net.tasks import Tasks


class LitePullConsumer(GroupMember):
    """Fetches ahead and hands out batches when asked (DefaultLitePullConsumer.java).

        consumer = LitePullConsumer("reports", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", tags="paid")
        async with consumer:
            async for message in consumer:
                ...

    With `subscribe` the group shares the queues; with `assign` this consumer reads the queues it
    is given and is no member of the group. A polled batch counts as consumed when `poll` is called
    again, when `commit` is, or on a clean exit; with `async for` a message does when the next one
    is asked for. So what was not consumed in a crash comes again, and nothing is skipped.
    """

    consume_type = "CONSUME_ACTIVELY"

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str],
        settings: LitePullSettings | None = None,
        client: ClientSettings | None = None,
        strategy: Strategy | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_timestamp_ms: int | None = None,
    ) -> None:
        """Describe the consumer; nothing happens before `start`.

        The arguments are those of PushConsumer. Raises InvalidMessage for a bad group name.
        """
        super().__init__(
            group,
            namesrv=namesrv,
            client=client,
            strategy=strategy,
            consume_from=consume_from,
            consume_timestamp_ms=consume_timestamp_ms,
        )
        self.settings = settings or LitePullSettings()
        self.handover_timeout_ms = self.settings.handover_timeout_ms
        self._given: dict[MessageQueue, ProcessQueue] = {}  # by assign ...
        self._wanted: dict[str, Subscription] = {}  # ... and what of their topics
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._paused: set[MessageQueue] = set()
        self._fetched = Fetched()

    # --- what to read ---

    def subscribe(self, topic: str, *, tags: str = "*", sql: str | None = None) -> None:
        """Share the topic's queues with the group's other members.

        `tags` ("a || b") or an SQL92 expression select messages. Raises InvalidUse after the
        start, or when queues were assigned.
        """
        if self._instance is not None:
            raise InvalidUse("subscribe before the consumer is started")
        self._subscriptions[topic] = parse_subscription(topic, tags, sql)

    async def assign(self, queues: Iterable[MessageQueue], *, tags: str = "*") -> None:
        """Read exactly these queues, whoever else reads them; replaces what was assigned before.

        Each begins at the group's committed offset, else where `consume_from` says. Raises
        InvalidUse when a topic is subscribed, or before the start; Unavailable and BrokerRefused
        if a starting offset cannot be found.
        """
        instance = self._started()
        if self.ownership is not None:
            raise InvalidUse("subscribe and assign exclude each other; this consumer subscribes")
        wanted = set(queues)
        for queue in [queue for queue in self._given if queue not in wanted]:
            process = self._given.pop(queue)
            process.drop()
            await self._end(queue, process)
        for queue in sorted(wanted):
            self._wanted[queue.topic] = parse_subscription(queue.topic, tags)
            instance.keep_route(queue.topic)
            if queue not in self._given:
                start = await self._start.find(queue, self._offsets)
                self._given[queue] = ProcessQueue(start)
                self._begin(queue, self._given[queue])

    # --- life ---

    async def start(self) -> None:
        """Connect; with subscriptions, join the group.

        Raises InvalidUse when started already, BrokerRefused for a bad SQL92 expression.
        """
        instance = self._instance = await self._share_instance()
        self._tasks = Tasks()
        if self.settings.auto_commit:
            self._tasks.every(
                self.settings.auto_commit_interval_ms, self._commit_later, "auto-commit"
            )
        if self._subscriptions:
            idle_max_ms = self.settings.pull.idle_max_ms
            self.ownership = self._own(instance, self._begin, self._end, idle_max_ms)
            await instance.add_consumer(self)

    async def close(self) -> None:
        """Stop; with auto-commit, what was handed out counts as consumed and is committed."""
        if self.settings.auto_commit:
            self._fetched.all_done()
        await self._leave()

    async def _leave(self) -> None:
        instance = self._instance
        if instance is None or self._leaving:
            return
        self._leaving = True
        subscribed = self.ownership is not None
        self._fetched.close()
        try:
            if subscribed:
                await instance.leave(self)
            for queue, process in self._given.items():
                process.drop()
                await self._end(queue, process)
        finally:
            self._instance, self._leaving = None, False
            await self._tasks.close()
            await return_instance(instance, self.group if subscribed else None)

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
        """Close; after an error what was handed out last does not count as consumed."""
        if error is None:
            await self.close()
        else:
            self._fetched.forget_handed()
            await self._leave()

    # --- reading ---

    async def poll(self, timeout_ms: int | None = None) -> list[ReceivedMessage]:
        """Return the next batch, all of one queue; empty after `timeout_ms` (default 5,000).

        The batch before it now counts as consumed. Messages of queues that were lost or sought
        meanwhile are never handed out. Raises InvalidUse before the start.
        """
        self._started()
        self._fetched.all_done()
        timeout_ms = self.settings.poll_timeout_ms if timeout_ms is None else timeout_ms
        return await self._fetched.take_batch(timeout_ms / 1000)

    def __aiter__(self) -> Self:
        """Iterate over the messages, one by one, until the consumer is closed."""
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Return the next message; the one before it now counts as consumed."""
        if self._instance is None or self._leaving:
            raise StopAsyncIteration
        self._fetched.all_done()
        message = await self._fetched.take_one()
        if message is None:
            raise StopAsyncIteration
        return message

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with `queue` at `offset`; what was fetched before is discarded.

        Raises InvalidUse if the queue is not assigned or the offset outside of what the broker
        has; Unavailable, BrokerRefused.
        """
        self._process(queue)
        oldest = await self._offsets.oldest(queue)
        newest = await self._offsets.newest(queue)
        if not oldest <= offset <= newest:
            raise InvalidUse(
                f"cannot seek {queue} to offset {offset}: the broker has {oldest} to {newest}"
            )
        self._restart(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that the broker has."""
        self._process(queue)
        self._restart(queue, await self._offsets.oldest(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that arrives."""
        self._process(queue)
        self._restart(queue, await self._offsets.newest(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch nothing more of these queues until `resume`."""
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch these queues again, at the latest a second from now."""
        self._paused.difference_update(queues)

    # --- offsets ---

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets in the brokers and wait for their answers.

        Without `offsets`: what was handed out counts as consumed, and every queue's offset is
        stored. With: these (each the offset of the next message to consume), for assigned queues.
        Raises InvalidUse, Unavailable, BrokerRefused.
        """
        if offsets is None:
            self._fetched.all_done()
            offsets = {queue: process.committable for queue, process in self._queues().items()}
        else:
            for queue, offset in offsets.items():
                self._fetched.done_before(self._process(queue), offset)
        for queue, offset in offsets.items():
            await self._offsets.commit(queue, offset)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset as the broker has it; None if it has none."""
        self._started()
        return await self._offsets.committed(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later."""
        self._started()
        return await self._offsets.at_time(queue, timestamp_ms)

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of `topic` that can be read; raises RouteMissing, Unavailable."""
        return list((await self._started().routes.get(topic)).read_queues)

    # --- looking in ---

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are read at the moment, sorted."""
        return sorted(self._queues())

    def statistics(self) -> dict[MessageQueue, QueueStatistics]:
        """Return the state of each queue that is read."""
        return {queue: process.statistics() for queue, process in self._queues().items()}

    # --- queues ---

    def _queues(self) -> dict[MessageQueue, ProcessQueue]:
        return self.ownership.queues if self.ownership is not None else self._given

    def _process(self, queue: MessageQueue) -> ProcessQueue:
        self._started()
        process = self._queues().get(queue)
        if process is None:
            raise InvalidUse(
                f"{queue} is not assigned to this consumer; another member of the group may have"
                " taken it over"
            )
        return process

    def _begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        assert self._instance is not None
        instance, pull = self._instance, self.settings.pull
        loop = PullLoop(
            queue,
            process,
            Puller(instance.connections, instance.routes, self.group, queue, pull, lite=True),
            self._subscriptions.get(queue.topic) or self._wanted[queue.topic],
            pull,
            deliver=self._fetched.add,
            offset_illegal=self._correct,
            hold_ms=lambda: self._hold_ms(queue),
        )
        pulling = self._tasks.start(loop.run(), f"pull {queue}")
        if pulling is not None:
            self._pulling[queue] = pulling

    def _hold_ms(self, queue: MessageQueue) -> int:
        """How long the next pull has to wait: for a resume, or until some messages are polled."""
        if queue in self._paused:
            return self.settings.pull.suspended_delay_ms
        if self._fetched.messages > self.settings.fetched_messages_max:
            return self.settings.pull.flow_control_delay_ms
        return 0

    def _stop_pulling(self, queue: MessageQueue) -> None:
        pulling = self._pulling.pop(queue, None)
        if pulling is not None and pulling is not asyncio.current_task():
            pulling.cancel()

    async def _end(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let the batch that the user works on end, then store the offset, with auto-commit."""
        self._stop_pulling(queue)
        self._fetched.discard(process)
        await process.wait_idle(self.settings.handover_timeout_ms / 1000)
        if self.settings.auto_commit:
            await self._offsets.commit_or_log(queue, process.committable)

    def _restart(self, queue: MessageQueue, offset: int) -> None:
        """Read `queue` from `offset` on, with nothing left of what was fetched before."""
        queues = self._queues()
        process = queues.get(queue)
        if process is None:
            return  # lost meanwhile
        process.drop()
        self._stop_pulling(queue)
        self._fetched.discard(process)
        queues[queue] = ProcessQueue(offset)
        self._begin(queue, queues[queue])

    async def _correct(self, queue: MessageQueue, offset: int) -> None:
        self._restart(queue, offset)

    async def _commit_later(self) -> None:
        await self._offsets.commit_later(
            {queue: process.committable for queue, process in self._queues().items()}
        )
