"""A consumer that fetches by itself and hands each message to an async function."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import NamedTuple, overload

from aerobee.client.errors import InvalidUse, function, whole_number, wrong_argument
from aerobee.client.group.group_member import GroupMember, MessageModel, model_word
from aerobee.client.group.offsets import ConsumeFrom, StartingPoint
from aerobee.client.group.ownership import QueuesChanged
from aerobee.client.group.running_info import describe, identity
from aerobee.client.group.strategies import Strategy
from aerobee.client.handlers import (
    BatchHandler,
    Handler,
    HandlerThreads,
    MessageHandler,
    as_handler,
)
from aerobee.client.hooks import ConsumeHook, FilterHook, Hooks
from aerobee.client.instance import stopping
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.instances import return_instance
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import QueueStatistics
from aerobee.client.pulls.samples import StatisticSample, of_queues, of_topics
from aerobee.client.pulls.statistics import TopicStatistics
from aerobee.client.pulls.subscriptions import Subscription, parse_subscription
from aerobee.client.push.consumption import Consumption
from aerobee.client.push.failures import retry_topic
from aerobee.client.push.handling import HandlerStatistics, HandlingTerms, handle_directly
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import BATCH_MESSAGES, ClientSettings, PushSettings, given
from aerobee.remoting.bodies import ConsumeDirectlyResult, ConsumerRunningInfo

log = logging.getLogger(__name__)


class PushStatistics(NamedTuple):
    """A look at a push consumer: its handlers' counters, its queues and its topics.

        statistics = consumer.statistics()
        print(statistics.handlers.failed, "of", statistics.topics["orders"].pulled, "messages")

    `samples()` of the consumer has the same as plain numbers for a metrics system.
    """

    handlers: HandlerStatistics
    queues: dict[MessageQueue, QueueStatistics]
    topics: dict[str, TopicStatistics]


class PushConsumer(GroupMember):
    """Is handed messages: each goes to one member of its group (DefaultMQPushConsumer.java).

        async def handle(message: ReceivedMessage) -> None:
            print(message.topic, message.tags, message.body, flush=True)

        consumer = PushConsumer(
            "billing", namesrv="127.0.0.1:9876", consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("orders", handle, tags="new || paid")
        asyncio.run(consumer.run())  # until SIGINT or SIGTERM; or: async with consumer: ...

    A message is done when its handler returns. If the handler raises, or returns
    ConsumeResult.LATER or a Later, the broker gets it back and delivers it again, to any member of
    the group, after a while that grows each time (10 s, 30 s, 1 min ...); after
    `PushSettings.max_reconsume_times` times (16) it goes to the dead letters, topic `%DLQ%billing`.
    Delivery is at least once: after a crash what was not committed comes again, that is what was
    handled in the last 5 s, or with `PushSettings(commit="each")` what was at work.

    A group goes on where it has stopped. What it gets first of a queue where it never was, says
    `consume_from`: by LAST (the default) what is sent from now on, by FIRST all that the broker
    has, by TIMESTAMP what was stored since. But of a young topic, whose first messages its broker
    still has in memory, a new group gets these by LAST, too: that is RocketMQ's rule.

    Up to `PushSettings.concurrency` (20) handlers run at a time. `ordered=True` handles the
    messages of each queue one after the other; MessageModel.BROADCASTING gives each member all of
    them. Errors of the cluster end nothing: they are told in the log, and it is tried again.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: PushSettings | None = None,
        client: ClientSettings | None = None,
        strategy: Strategy | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_timestamp_ms: int | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        ordered: bool = False,
        hooks: Sequence[ConsumeHook | FilterHook] = (),
    ) -> None:
        """Describe the consumer; nothing happens before `start`.

        `namesrv` is "host:port;host:port" or a sequence. `consume_from` counts only for queues on
        which the group has no offset; `consume_timestamp_ms` (since 1970, default half an hour
        ago) goes with ConsumeFrom.TIMESTAMP. With `ordered` each queue's messages are handled one
        after the other; with MessageModel.BROADCASTING every member gets every message. Raises
        InvalidMessage for a bad group name, InvalidUse for a `consume_from` or `model` that is
        none.
        """
        self.message_model = model_word(model)
        start = StartingPoint.of(consume_from, consume_timestamp_ms)
        super().__init__(group, namesrv=namesrv, client=client, strategy=strategy, start=start)
        self.settings = given("settings", settings, PushSettings)
        if not isinstance(ordered, bool):
            raise wrong_argument("ordered", "a bool", ordered)
        self.ordered = ordered
        self.takes_locks = ordered and not self._broadcasts  # nobody else could have the queues
        self.handover_timeout_ms = self.settings.handover_timeout_ms
        self.client_rebalance = self.settings.client_rebalance or ordered
        self._terms = HandlingTerms(group, self.settings, Hooks.of(hooks), ordered)
        self._threads = HandlerThreads(self.settings.concurrency, f"{group}-handler")
        self._handlers: dict[str, Handler] = {}
        self._consumption: Consumption | None = None
        self._suspended = False

    # --- what to consume ---

    @overload
    def subscribe(
        self,
        topic: str,
        handler: MessageHandler,
        *,
        tags: str = "*",
        sql: str | None = None,
        batch: None = None,
    ) -> None: ...

    @overload
    def subscribe(
        self,
        topic: str,
        handler: BatchHandler,
        *,
        tags: str = "*",
        sql: str | None = None,
        batch: int,
    ) -> None: ...

    def subscribe(
        self,
        topic: str,
        handler: MessageHandler | BatchHandler,
        *,
        tags: str = "*",
        sql: str | None = None,
        batch: int | None = None,
    ) -> None:
        """Let `handler` get the topic's messages that carry one of `tags` ("a || b"), or all.

            async def handle(messages: list[ReceivedMessage]) -> Later | None:
                for at, message in enumerate(messages):
                    if message.body == b"not now":
                        return Later(delay_level=1, succeeded=at)
                return None

            consumer.subscribe("orders", handle, tags="new || paid", batch=16)

        `handler` is async and gets one ReceivedMessage, or with `batch` (or `PushSettings.batch`) a
        list of up to so many; a plain function runs in a thread. It answers with a ConsumeResult, a
        Later, or None for success. `sql` is an SQL92 expression for brokers that allow it
        (enablePropertyFilter); while the consumer runs, a refusal is logged.

        While it runs, the topic's queues come a moment later; of a topic that is subscribed
        already, another expression and another handler count from the next pulls on. Raises
        InvalidUse for tags that name nothing, and while the consumer is closing; InvalidHandler,
        which is a TypeError, too, for a handler that takes no message, and for generators.
        """
        subscription = parse_subscription(topic, tags, sql)
        instance = self._started() if self._instance is not None else None
        batch = self.settings.batch if batch is None else batch
        self._handlers[topic] = as_handler(handler, batch, self._threads)
        known = self._subscriptions.get(topic)
        if instance is None or known is None:
            self._subscriptions[topic] = subscription
        elif not known.change(subscription):
            return
        if instance is not None and self._consumption is not None:
            consumption = self._consumption
            self._follow_up(instance, subscription, lambda: consumption.pull_anew(topic))

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no longer: what no handler has begun is thrown away.

        Its queues are given up as when the group shares them anew. All members of a group should do
        the same: the others leave this one its share. Messages that failed here and come again are
        given back. A topic that is not subscribed is no error.
        """
        self._give_up_topic(topic)
        self._handlers.pop(topic, None)

    def on_queues_changed(self, callback: QueuesChanged) -> None:
        """Call `callback(topic, all_queues, my_queues)` when our share of a topic changed."""

        function("callback", callback)
        retries = retry_topic(self.group)

        def subscribed(topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
            if topic != retries or topic in self._handlers:
                callback(topic, queues, mine)

        super().on_queues_changed(subscribed)

    # --- life ---

    async def start(self, timeout_ms: int | None = None) -> None:
        """Join the group; messages flow as soon as the queues are shared.

        A cluster that cannot be reached raises nothing: it is tried again until it can, and the log
        says so once, each half minute, and when it is over. With `timeout_ms`, or
        `PushSettings.start_timeout_ms`, it raises Unavailable after so long; a topic that does not
        exist yet is no reason. Raises InvalidUse without subscription, or when started already;
        BrokerRefused for an SQL92 expression that the broker cannot read.
        """
        if timeout_ms is None:
            timeout_ms = self.settings.start_timeout_ms
        else:
            whole_number("timeout_ms", timeout_ms)
        if not self._subscriptions:
            raise InvalidUse(f"group {self.group!r} subscribes to nothing; call subscribe first")
        if not self._broadcasts:
            retries = retry_topic(self.group)
            self._subscriptions.setdefault(retries, Subscription(retries))
        instance = self._borrow_instance()
        self._terms.hooks.begin(lambda: instance.client_id, broadcasts=self._broadcasts)
        if self._client.enable_trace:
            from aerobee.client.sending.tracing import trace_consumer  # it costs who wants it

            self._trace = trace_consumer(self._terms.hooks, self.group, self._namesrv, self._client)
        self._consume(instance)
        async with self._or_close() as go_on, self._in_time(timeout_ms):
            await self._check_subscriptions(instance, go_on)
            await instance.add_consumer(self)

    async def run(self) -> None:
        """Start, serve until SIGINT or SIGTERM, close, and return.

            asyncio.run(consumer.run())

        Running handlers end first, for up to `PushSettings.handover_timeout_ms`, and all that was
        handled is committed: after a restart nothing comes twice. A second signal ends the process
        at once. `run(consumer, another)` of aerobee.client serves several, and says more. Raises
        what `start` raises.
        """
        await stopping.run(self)

    def _consume(self, instance: ClientInstance) -> None:
        """Make ready to work on queues, before the first one is ours."""
        self._offsets = self._offset_store(instance.brokers, self.settings.offsets_folder)
        consumption = self._consumption = Consumption(
            self._member, self._terms, self._handlers, self._offsets, self._locks
        )
        consumption.suspended = self._suspended
        self.ownership = self._own(consumption, self.settings.pull.idle_max_ms)
        consumption.ownership = self.ownership

    async def close(self) -> None:
        """Leave the group: running handlers end, offsets are stored, the other members take over.

        It waits for handlers up to `PushSettings.handover_timeout_ms`, then cancels them. A handler
        that calls this is neither waited for nor cancelled; its message is not done. Cancelled, it
        leaves at once.
        """
        if self._consumption is not None:
            self._consumption.spare_caller()
        await self._close_once(self._leave)

    async def _leave(self, instance: ClientInstance) -> None:
        async with contextlib.AsyncExitStack() as last:  # each of them, whatever the others raise
            last.push_async_callback(return_instance, instance, self.group)
            if self._trace is not None:
                last.push_async_callback(self._trace.close)
            last.callback(self._threads.close)
            if self._consumption is not None:
                last.push_async_callback(self._consumption.close)
            last.callback(self._tell_of_running().cancel)
            await self._leave_group(instance)

    def _tell_of_running(self) -> asyncio.TimerHandle:
        """Say what a close waits for, should that take a moment; it is cancelled when it ends."""

        def tell() -> None:
            running = self.statistics().handlers.running
            if running:
                log.warning(
                    "waiting up to %g s for %d handler%s, then closing group=%s",
                    self.settings.handover_timeout_ms / 1000,
                    running,
                    "" if running == 1 else "s",
                    self.group,
                )

        return asyncio.get_running_loop().call_later(stopping.TOLD_AFTER_S, tell)

    def suspend(self) -> None:
        """Pull nothing more until `resume`; what is fetched is still handled."""
        self._suspend(True)

    def resume(self) -> None:
        """Go on pulling, at the latest a second from now."""
        self._suspend(False)

    # --- looking in ---

    def queues(self) -> list[MessageQueue]:
        """Return the queues of subscribed topics that this member owns at the moment, sorted."""
        owned = self.ownership.queues if self.ownership is not None else ()
        return sorted(queue for queue in owned if queue.topic in self._handlers)

    def statistics(self) -> PushStatistics:
        """Return counters of the handlers, and the state of each owned queue and each topic.

            print(consumer.statistics().handlers.succeeded)

        Counters begin with the start; before it, and after the close, all is zero or empty.
        """
        if self.ownership is None or self._consumption is None:
            return PushStatistics(HandlerStatistics(0, 0, 0, 0, 0), {}, {})
        handled = self._consumption.handled()
        queues = {at: process.statistics() for at, process in self.ownership.queues.items()}
        topics = self._consumption.statistics.read()
        return PushStatistics(handled, queues, topics)

    def samples(self) -> list[StatisticSample]:
        """Return the statistics as numbers with names and labels, for a metrics system.

            for sample in consumer.samples():
                print(sample.name, sample.labels, sample.value)

        Counters are those since the start; before it the list is that of an idle consumer.
        """
        handlers, queues, topics = self.statistics()
        labels = {"group": self.group}
        running, waiting = "Handlers that run now.", "Messages fetched whose handler has not begun."
        return [
            StatisticSample("handlers_running", handlers.running, labels, running),
            StatisticSample("messages_waiting", handlers.waiting, labels, waiting),
            *of_topics(self.group, topics),
            *of_queues(self.group, queues),
        ]

    def running_info(self) -> ConsumerRunningInfo:
        """Describe this consumer to an operator (GET_CONSUMER_RUNNING_INFO); raises InvalidUse."""
        instance = self._started()
        assert self._consumption is not None and self.ownership is not None
        settings = self.settings
        self._consumption.handled()  # what the topics count is up to date then
        started_ms = self._consumption.started_ms
        properties = {
            **identity(self.group, self.consume_type, self.message_model, started_ms),
            "PROP_NAMESERVER_ADDR": ";".join(self._namesrv),
            "PROP_CONSUMEORDERLY": str(self.ordered).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
            "consumeFromWhere": self._start.consume_from.value,
            "clientIP": instance.client_id.partition("@")[0],
            "consumeThreadMax": str(settings.concurrency),
            "pullBatchSize": str(settings.pull.batch_messages or BATCH_MESSAGES),
            "consumeMessageBatchMaxSize": str(settings.batch or 1),
            "maxReconsumeTimes": str(settings.max_reconsume_times),
        }
        return describe(
            self.ownership.queues,
            self._subscriptions.values(),
            self._consumption.statistics,
            self._consumption.lock_keeper,
            properties,
        )

    async def consume_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult:
        """Give a message to its handler now, at an operator's wish (CONSUME_MESSAGE_DIRECTLY).

        Whatever comes of it, no offset moves and nothing is sent back.
        """
        handler = self._handlers.get(message.topic)
        return await handle_directly(handler, message, ordered=self.ordered)

    # --- what the instance asks ---

    async def persist_offsets(self) -> None:
        """Store the offsets of all the owned queues; failures are logged."""
        if self._consumption is not None:
            await self._offsets.commit_all(self._consumption.offsets())

    def _suspend(self, suspended: bool) -> None:
        self._suspended = suspended
        if self._consumption is not None:
            self._consumption.suspended = suspended
