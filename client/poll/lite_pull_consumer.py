"""A consumer that the user polls: its queues are shared with the group, or given."""

import contextlib
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aerobee.client.errors import OFFSET_MAX, InvalidUse, function, whole_number
from aerobee.client.group.group_member import MessageModel, model_word
from aerobee.client.group.offsets import ConsumeFrom, StartingPoint
from aerobee.client.group.running_info import describe, identity
from aerobee.client.group.strategies import Strategy
from aerobee.client.hooks import ConsumeHook, FilterHook, Hooks
from aerobee.client.instance import stopping
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.instances import claim_group, return_instance
from aerobee.client.message import MessageQueue, check_queue, check_queues, check_topic
from aerobee.client.poll.polling import PollingMember
from aerobee.client.poll.queues import LiteQueues
from aerobee.client.poll.serving import serve
from aerobee.client.poll.topic_watch import TopicWatch
from aerobee.client.pulls.process_queue import QueueStatistics
from aerobee.client.pulls.samples import StatisticSample, of_queues
from aerobee.client.pulls.statistics import ConsumeStatistics
from aerobee.client.pulls.subscriptions import Subscription, parse_subscription
from aerobee.client.settings import BATCH_MESSAGES, ClientSettings, LitePullSettings, given
from aerobee.remoting.bodies import ConsumerRunningInfo
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import CONSUME_ACTIVELY

log = logging.getLogger(__name__)


class LitePullConsumer(PollingMember):
    """Fetches ahead and hands out messages when asked (DefaultLitePullConsumer.java).

        async def main() -> None:
            consumer = LitePullConsumer(
                "reports", namesrv="127.0.0.1:9876", consume_from=ConsumeFrom.FIRST
            )
            consumer.subscribe("orders", tags="paid")
            async with consumer:
                async for message in consumer:
                    print(message.queue_offset, message.body, flush=True)
                    break

        asyncio.run(main())

    With `subscribe` the group shares the queues; with `assign` this consumer reads the queues it
    is given and is no member of the group. A polled batch counts as consumed when its task calls
    `poll` again, when `commit` is called, or on a clean exit; with `async for` a message does when
    the next one is asked for. So what was not consumed in a crash comes again, and nothing is
    skipped. A queue that goes to another member goes when its polled batch is consumed, at the
    latest after `LitePullSettings.handover_timeout_ms` (10 s). A service runs by `run(work)`, which
    ends at SIGINT and SIGTERM.

    A group goes on where it has stopped. What it gets first of a queue where it never was, says
    `consume_from`: by LAST (the default) what is sent from now on, by FIRST all that the broker
    has, by TIMESTAMP what was stored since. But of a young topic, whose first messages its broker
    still has in memory, a new group gets these by LAST, too: that is RocketMQ's rule.

    Offsets count messages of a queue, from 0; a committed offset is that of the next message.
    """

    consume_type = CONSUME_ACTIVELY

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: LitePullSettings | None = None,
        client: ClientSettings | None = None,
        strategy: Strategy | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_timestamp_ms: int | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        hooks: Sequence[ConsumeHook | FilterHook] = (),
    ) -> None:
        """Describe the consumer; nothing happens before `start`.

        The arguments are those of PushConsumer. Raises InvalidMessage for a bad group name.
        """
        self.message_model = model_word(model)
        start = StartingPoint.of(consume_from, consume_timestamp_ms)
        super().__init__(group, namesrv=namesrv, client=client, strategy=strategy, start=start)
        self.settings = given("settings", settings, LitePullSettings)
        self.handover_timeout_ms = self.settings.handover_timeout_ms
        self._hooks = Hooks.of(hooks)
        self._given_topics: dict[str, Subscription] = {}
        self._given_first: set[MessageQueue] | None = None  # by `assign` before the start
        self._watch = TopicWatch()

    # --- what to read ---

    def subscribe(self, topic: str, *, tags: str = "*", sql: str | None = None) -> None:
        """Share the topic's queues with the group's other members.

        `tags` ("a || b") or an SQL92 expression select messages. While the consumer runs, the
        queues come a moment later, and another expression counts from the next pulls on. Raises
        InvalidUse when queues were assigned.
        """
        subscription = parse_subscription(topic, tags, sql)
        if self._given_topics:
            raise InvalidUse("subscribe and assign exclude each other; queues are assigned")
        self._reads = True
        if self._instance is None:
            self._subscriptions[topic] = subscription
            return
        instance = self._started()
        if self.ownership is None:
            claim_group(instance, self.group)
            self._subscriptions[topic] = subscription
            self._share_queues(instance)
        elif (known := self._subscriptions.get(topic)) is not None:
            if known.change(subscription):
                self._queues.pull_anew(topic)
        else:
            self._subscriptions[topic] = subscription
        self._follow_up(instance, subscription)

    def unsubscribe(self, topic: str) -> None:
        """Read the topic no longer: what is fetched of it is not handed out any more.

        Its queues go to the other members. A topic that is not subscribed is no error.
        """
        self._give_up_topic(topic)

    async def assign(
        self, queues: Iterable[MessageQueue], *, tags: str = "*", sql: str | None = None
    ) -> None:
        """Read exactly these queues, whoever else reads them; replaces what was assigned before.

        Each begins at the group's committed offset, else where `consume_from` says. `tags` or
        `sql` select messages of all their topics. Raises InvalidUse when a topic is subscribed;
        Unavailable and BrokerRefused if a starting offset cannot be found.
        """
        wanted = set(check_queues(queues))
        given = {queue.topic: parse_subscription(queue.topic, tags, sql) for queue in wanted}
        if self._subscriptions or self.ownership is not None:
            raise InvalidUse("subscribe and assign exclude each other; this consumer subscribes")
        for topic, subscription in given.items():
            known = self._given_topics.setdefault(topic, subscription)
            if known.change(subscription) and self._instance is not None:
                self._queues.pull_anew(topic)
        self._reads = True
        if self._instance is None:
            self._given_first = wanted
            return
        self._started()
        await self._queues.assign(wanted)

    # --- life ---

    async def start(self, timeout_ms: int | None = None) -> None:
        """Connect; with subscriptions, join the group.

        A cluster that cannot be reached raises nothing: it is tried again until it can, and the log
        says so once, each half minute, and when it is over. With `timeout_ms`, or
        `LitePullSettings.start_timeout_ms`, it raises Unavailable after so long; a topic that does
        not exist yet is no reason. Raises InvalidUse when started already, BrokerRefused for a bad
        SQL92 expression; after an `assign`, what that raises.
        """
        if timeout_ms is None:
            timeout_ms = self.settings.start_timeout_ms
        else:
            whole_number("timeout_ms", timeout_ms)
        instance = self._borrow_instance()
        self._hooks.begin(lambda: instance.client_id, broadcasts=self._broadcasts)
        if self._client.enable_trace:
            from aerobee.client.sending.tracing import trace_consumer  # it costs who wants it

            self._trace = trace_consumer(self._hooks, self.group, self._namesrv, self._client)
        self._started_ms = wall_clock_ms()
        self._tasks = Tasks()
        folder = self.settings.offsets_folder
        offsets = self._offset_store(instance.as_stranger, folder)  # until it shares queues
        self._queues = LiteQueues(
            self._member, self.settings, offsets, self._hooks, self._wanted_of
        )
        if self.settings.auto_commit:
            interval_ms = self.settings.auto_commit_interval_ms
            self._tasks.every(interval_ms, self._queues.commit_all, "auto-commit")
        if self._subscriptions:
            self._share_queues(instance)
        async with self._or_close() as go_on, self._in_time(timeout_ms):
            await self._check_subscriptions(instance, go_on)
            await self._watch.start(instance)
            go_on()
            if self.ownership is not None:
                await instance.add_consumer(self)
            elif self._given_first is not None:
                await self._queues.assign(self._given_first)

    async def close(self) -> None:
        """Stop; with auto-commit, what was handed out counts as consumed and is committed.

        Not so where this is called, and awaited, on the way of an error: in the `finally` or
        `except` of a block that failed or was cancelled. What was handed out last comes again then,
        as after `async with`. Java's client commits it all the same.
        """
        if self._instance is not None and not self._leaving:
            if sys.exception() is not None:
                self._queues.fetched.forget_handed()
            elif self.settings.auto_commit:
                self._queues.fetched.all_done()
        await self._close_once(self._leave)

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
            self._queues.fetched.forget_handed()
            await self._close_once(self._leave)

    async def run(self, work: Callable[[Self], Coroutine[Any, Any, object]]) -> None:
        """Start, do `work` until SIGINT or SIGTERM, close, and return.

            async def work(consumer: LitePullConsumer) -> None:
                async for message in consumer:
                    print(message.body)

            asyncio.run(consumer.run(work))

        At the signal nothing more is handed out: `async for` comes to its end, and a `poll` that is
        waiting is cancelled once all that was polled counts as consumed. What it is working on it
        may finish, for up to `LitePullSettings.handover_timeout_ms` (10 s); what takes longer is
        cancelled, and comes again. A second signal ends the process at once. Where `work` returns
        by itself, the consumer is closed; what it raises, this raises, and what was handed out
        last comes again. It serves one consumer; `asyncio.gather` of several works, too.
        """
        function("work", work)
        with stopping.stop_signals() as stop:
            try:
                if await stopping.unless(stop, self.start()):
                    await serve(self._work_on(work), self._queues.fetched, self.settings, stop)
            finally:
                await self.close()  # after an error what was handed out last is not consumed

    async def _work_on(self, work: Callable[[Self], Coroutine[Any, Any, object]]) -> None:
        doing = work(self)
        if not inspect.isawaitable(doing):
            raise InvalidUse(f"work must be an async function, is {work!r}: write async def")
        await doing

    # --- where to read on ---

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with `queue` at `offset`; what was fetched before is discarded.

        Raises InvalidUse if the queue is not assigned or the offset outside of what the broker
        has; Unavailable, BrokerRefused.
        """
        offset = whole_number("offset", offset, 0, OFFSET_MAX)
        self._read(queue)
        oldest = await self._queues.offsets.oldest(queue)
        newest = await self._queues.offsets.newest(queue)
        if not oldest <= offset <= newest:
            raise InvalidUse(
                f"cannot seek {queue} to offset {offset}: the broker has {oldest} to {newest}"
            )
        self._queues.restart(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that the broker has."""
        self._read(queue)
        self._queues.restart(queue, await self._queues.offsets.oldest(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that arrives."""
        self._read(queue)
        self._queues.restart(queue, await self._queues.offsets.newest(queue))

    # --- looking in ---

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of `topic` that can be read, as a nameserver knows them now.

        Raises RouteMissing, Unavailable.
        """
        check_topic(topic)
        return list((await self._started().routes.get_anew(topic)).read_queues)

    def on_topic_queues_changed(
        self, topic: str, callback: Callable[[str, list[MessageQueue]], None]
    ) -> None:
        """Call `callback(topic, queues)` when the topic has other queues than before.

        It need not be subscribed; another callback for the topic replaces the first. Routes are
        looked up every `ClientSettings.route_interval_ms` (TopicMessageQueueChangeListener.java).
        """
        function("callback", callback)
        self._watch.add(check_topic(topic), callback)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are read at the moment, sorted."""
        return sorted(self._queues.all()) if self._instance is not None else []

    def statistics(self) -> dict[MessageQueue, QueueStatistics]:
        """Return the state of each queue that is read.

            for queue, state in consumer.statistics().items():
                print(queue.broker_name, queue.queue_id, state.messages, state.bytes)

        Messages are those that were fetched and are not consumed.
        """
        return self._queues.statistics() if self._instance is not None else {}

    def samples(self) -> list[StatisticSample]:
        """Return the statistics as numbers with names and labels, as `PushConsumer.samples` does.

            for sample in consumer.samples():
                print(sample.name, sample.labels, sample.value)

        Before the start, and after the close, nothing waits.
        """
        waiting = self._queues.fetched.messages if self._instance is not None else 0
        help_text = "Messages fetched and not polled."
        return [
            StatisticSample("messages_waiting", waiting, {"group": self.group}, help_text),
            *of_queues(self.group, self.statistics()),
        ]

    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer to an operator (GET_CONSUMER_RUNNING_INFO); raises InvalidUse."""
        self._started()
        properties = {
            **identity(self.group, self.consume_type, self.message_model, self._started_ms),
            "PROP_NAMESERVER_ADDR": ";".join(self._namesrv),
            "PROP_CONSUMEORDERLY": "false",
            "autoCommit": str(self.settings.auto_commit).lower(),
            "pullBatchSize": str(self.settings.pull.batch_messages or BATCH_MESSAGES),
        }
        wanted = self._subscriptions or self._given_topics
        return describe(self._queues.all(), wanted.values(), ConsumeStatistics(), None, properties)

    async def persist_offsets(self) -> None:
        """Store nothing: with auto-commit this consumer has a timer of its own."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets with those of the queues that are read here."""
        self._started()
        for queue in sorted(self._queues.all().keys() & offsets.keys()):
            self._queues.restart(queue, offsets[queue])
            await self._queues.offsets.commit_or_log(queue, offsets[queue])

    # --- within ---

    def _read(self, queue: MessageQueue) -> None:
        self._started()
        self._queues.of(check_queue(queue))

    def _state(self) -> str:
        """What `repr` says of it; the queues may be given."""
        if self._instance is None or self.ownership is not None:
            return super()._state()
        return f"started, {len(self.assignment())} assigned queues"

    def _wanted_of(self, topic: str) -> Subscription:
        return self._subscriptions.get(topic) or self._given_topics[topic]

    def _share_queues(self, instance: ClientInstance) -> None:
        """Read as a member from now on: brokers answer for a queue when its owner has let go."""
        queues = self._queues
        if not self._broadcasts:
            queues.offsets = self._offset_store(instance.brokers, self.settings.offsets_folder)
        self.ownership = queues.ownership = self._own(queues, self.settings.pull.idle_max_ms)

    async def _leave(self, instance: ClientInstance) -> None:
        self._queues.fetched.close()
        self._watch.stop()
        group = self.group if self.ownership is not None else None
        async with contextlib.AsyncExitStack() as last:  # each of them, whatever the others raise
            last.push_async_callback(return_instance, instance, group)
            if self._trace is not None:
                last.push_async_callback(self._trace.close)
            last.push_async_callback(self._tasks.close)
            last.callback(self._own_nothing)
            last.push_async_callback(self._queues.close)
            if self.ownership is not None:
                await self._leave_group(instance)

    def _own_nothing(self) -> None:
        self.ownership = None
