"""A consumer that pulls when it is told to."""

from collections.abc import Sequence

from aerobee.client.errors import function
from aerobee.client.hooks import ConsumeHook, FilterHook
from aerobee.client.message import MessageQueue
from aerobee.client.plain.pull_consumer import PullConsumer as AsyncConsumer
from aerobee.client.plain.pull_consumer import Pulled
from aerobee.client.pulls.puller import PullResult
from aerobee.client.pulls.subscriptions import ALL
from aerobee.client.settings import ClientSettings, PullConsumerSettings
from aerobee.client.sync.handler_threads import DaemonThreads
from aerobee.client.sync.lifetime import BlockingClient
from aerobee.remoting.errors import AerobeeError


class PullConsumer(BlockingClient[AsyncConsumer]):
    """One pull at a time, wherever the caller wants.

        with PullConsumer("reports", namesrv="127.0.0.1:9876") as consumer:
            for queue in consumer.fetch_queues("orders"):
                result = consumer.pull(queue, consumer.committed(queue) or 0)
                consumer.commit(queue, result.next_offset)

    It shares no queues, nobody waits for it, and it waits for nobody. Brokers know of it only if it
    names `topics`: it is then listed among the group's consumers, which needs a group without push
    and lite pull consumers: `start` refuses another one, and when they come later it is listed no
    more, with a warning in the log.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: PullConsumerSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[ConsumeHook | FilterHook] = (),
        topics: Sequence[str] = (),
    ) -> None:
        """Describe the consumer; nothing happens before `start`.

        `topics` are those as whose consumer brokers list it; it may pull from others, too. The
        other arguments are those of PushConsumer. Raises InvalidMessage for a bad group name.
        """
        inner = AsyncConsumer(
            group, namesrv=namesrv, settings=settings, client=client, hooks=hooks, topics=topics
        )
        super().__init__(inner, inner.group)
        self.settings = inner.settings
        self._callbacks = DaemonThreads(1, f"{group}-callback")

    # --- pulls ---

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        tags: str = ALL,
        sql: str | None = None,
        messages_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Return what `queue` holds from `offset` on, at once, even if that is nothing.

        `tags` ("a || b") or an SQL92 expression select messages; at most `messages_max` come. The
        result's `status` tells whether there are some, and `next_offset` where to go on. Raises
        InvalidUse, Unavailable, BrokerRefused, CorruptRecord.
        """
        return self._run(
            self._inner.pull(
                queue, offset, tags=tags, sql=sql, messages_max=messages_max, timeout_ms=timeout_ms
            )
        )

    def pull_when_available(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        tags: str = ALL,
        sql: str | None = None,
        messages_max: int | None = None,
    ) -> PullResult:
        """Return what `queue` holds from `offset` on, as soon as that is something.

        The broker holds the request for up to `PullConsumerSettings.suspend_ms`; after that the
        status is NO_NEW_MSG. Arguments and errors are those of `pull`.
        """
        return self._run(
            self._inner.pull_when_available(
                queue, offset, tags=tags, sql=sql, messages_max=messages_max
            )
        )

    def pull_with_callback(
        self,
        queue: MessageQueue,
        offset: int,
        callback: Pulled,
        *,
        tags: str = ALL,
        sql: str | None = None,
        messages_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Pull as `pull` does, without waiting: `callback` gets the result, or the error.

        It is called in a thread of its own, one call after the other. Raises InvalidUse for what is
        wrong with the arguments.
        """
        function("callback", callback)
        callbacks = self._callbacks

        def brought(outcome: PullResult | AerobeeError) -> None:
            callbacks.post(callback, outcome)

        self._usable()
        self._in_loop(
            lambda: self._inner.pull_with_callback(
                queue, offset, brought, tags=tags, sql=sql, messages_max=messages_max,
                timeout_ms=timeout_ms,
            )
        )  # fmt: skip

    def pull_oneway(self, queue: MessageQueue, offset: int) -> None:
        """Let the broker read `queue` from `offset` on, and take no answer.

        What it read is then in its memory. Raises InvalidUse, Unavailable.
        """
        self._run(self._inner.pull_oneway(queue, offset))

    # --- queues and offsets ---

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of `topic` that can be read, as a nameserver knows them now.

        Raises RouteMissing, Unavailable.
        """
        return self._run(self._inner.fetch_queues(topic))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset as the broker has it; None if it has none."""
        return self._run(self._inner.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the offset of the next message to consume; raises Unavailable, BrokerRefused."""
        self._run(self._inner.commit(queue, offset))

    def oldest_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message that the broker has."""
        return self._run(self._inner.oldest_offset(queue))

    def newest_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return self._run(self._inner.newest_offset(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later."""
        return self._run(self._inner.offset_for_timestamp(queue, timestamp_ms))

    # --- within ---

    def _threads_of(self) -> list[DaemonThreads]:
        return [self._callbacks]
