"""A consumer that fetches by itself and hands each message to a plain function, in a thread."""

from collections.abc import Callable, Coroutine, Sequence
from functools import update_wrapper
from typing import Any, TypeAlias, cast, overload

from aerobee.client.group.group_member import MessageModel
from aerobee.client.group.offsets import ConsumeFrom
from aerobee.client.group.ownership import QueuesChanged
from aerobee.client.group.strategies import Strategy
from aerobee.client.handlers import Answer
from aerobee.client.hooks import ConsumeHook, FilterHook
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.samples import StatisticSample
from aerobee.client.push.push_consumer import PushConsumer as AsyncConsumer
from aerobee.client.push.push_consumer import PushStatistics
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings, PushSettings
from aerobee.client.sync import running
from aerobee.client.sync.handler_threads import DaemonThreads, plain
from aerobee.client.sync.members import BlockingMember

MessageHandler: TypeAlias = Callable[[ReceivedMessage], Answer]
"""What `subscribe` takes: a plain function of one message."""
BatchHandler: TypeAlias = Callable[[list[ReceivedMessage]], Answer]
"""What `subscribe` takes with `batch`: a plain function of a list of messages."""


class PushConsumer(BlockingMember[AsyncConsumer]):
    """A member of a group whose handlers are plain functions, which run in threads.

        consumer = PushConsumer("orders-group", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", handle, tags="new || paid")
        consumer.run()  # until SIGINT or SIGTERM; or `with consumer:`

    A message is done when its handler returns. If the handler raises, or returns
    ConsumeResult.LATER or a Later, the broker gets it back and delivers it again, to any member of
    the group, after a while that grows each time; after `PushSettings.max_reconsume_times` times it
    goes to the dead letters. Up to `PushSettings.concurrency` handlers run at a time, each in a
    daemon thread: they keep no process from ending. Delivery is at least once.
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
        after the other; with MessageModel.BROADCASTING every member gets every message. Hooks and
        the strategy are called in the loop's thread. Raises InvalidMessage for a bad group name.
        """
        super().__init__(
            AsyncConsumer(
                group, namesrv=namesrv, settings=settings, client=client, strategy=strategy,
                consume_from=consume_from, consume_timestamp_ms=consume_timestamp_ms, model=model,
                ordered=ordered, hooks=hooks,
            )
        )  # fmt: skip
        self.settings = self._inner.settings
        self.ordered = ordered
        self._threads = DaemonThreads(self.settings.concurrency, f"{group}-handler")

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

        `handler` is a plain function of one ReceivedMessage, or with `batch` (or
        `PushSettings.batch`) of a list of up to so many. It answers with a ConsumeResult, a Later,
        or None for success; it may use any client of this module. `sql` is an SQL92 expression for
        brokers that allow it; while the consumer runs, a refusal is logged.

        While it runs, the topic's queues come a moment later; of a topic that is subscribed
        already, another expression and another handler count from the next pulls on. Raises
        InvalidHandler, which is a TypeError, too, for an async handler, a generator and one that
        takes no message; InvalidUse for tags that name nothing, and while it is closing.
        """
        plain(handler, "handler")
        threads, function = self._threads, cast(Callable[[Any], object], handler)

        async def in_thread(given: Any) -> object:
            return await threads.call(function, given)

        update_wrapper(in_thread, handler)  # what it takes is checked where it is subscribed
        subscribe: Callable[..., None] = self._inner.subscribe  # by overloads
        self._in_loop(lambda: subscribe(topic, in_thread, tags=tags, sql=sql, batch=batch))

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no longer: what no handler has begun is thrown away.

        Its queues are given up as when the group shares them anew. All members of a group should do
        the same. A topic that is not subscribed is no error.
        """
        self._in_loop(lambda: self._inner.unsubscribe(topic))

    def run(self) -> None:
        """Start, serve until SIGINT or SIGTERM, close, and return.

            consumer.run()

        Running handlers end first, for up to `PushSettings.handover_timeout_ms`, and all that was
        handled is committed: after a restart nothing comes twice. A second signal ends the process
        at once. `run(consumer, another)` of aerobee.client.sync serves several, and says more.
        Raises what `start` raises.
        """
        running.run(self)

    def close(self) -> None:
        """Leave the group: running handlers end, offsets are stored, the other members take over.

        It waits for handlers up to `PushSettings.handover_timeout_ms`; what they answer later
        counts no more. A handler that calls this is not waited for, its message is not done. In the
        child of a fork nothing happens.
        """
        super().close()

    def suspend(self) -> None:
        """Pull nothing more until `resume`; what is fetched is still handled."""
        self._in_loop(self._inner.suspend)

    def resume(self) -> None:
        """Go on pulling, at the latest a second from now."""
        self._in_loop(self._inner.resume)

    def queues(self) -> list[MessageQueue]:
        """Return the queues of subscribed topics that this member owns at the moment, sorted."""
        return self._in_loop(self._inner.queues)

    def statistics(self) -> PushStatistics:
        """Return counters of the handlers, and the state of each owned queue and each topic."""
        return self._in_loop(self._inner.statistics)

    def samples(self) -> list[StatisticSample]:
        """Return the statistics as numbers with names and labels, for a metrics system.

            for sample in consumer.samples():
                print(sample.name, sample.labels, sample.value)

        Counters are those since the start; before it the list is that of an idle consumer.
        """
        return self._in_loop(self._inner.samples)

    def on_queues_changed(self, callback: QueuesChanged) -> None:
        """Have `callback(topic, all_queues, my_queues)` called when our share of a topic changed.

        Soon after it has, in a thread of its own, one call after the other.
        """
        self._on_queues_changed(callback)

    def _begin(self, timeout_ms: int | None) -> Coroutine[Any, Any, None]:
        return self._inner.start(timeout_ms)

    def _threads_of(self) -> list[DaemonThreads]:
        return [self._threads, self._callbacks]
