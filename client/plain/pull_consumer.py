"""A consumer that pulls when it is told to, from where it is told, and remembers nothing."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aerobee.client.cluster.address_server import parse_namesrv
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import OFFSET_MAX, function, several, text, whole_number
from aerobee.client.group.offsets import GroupOffsets
from aerobee.client.hooks import ConsumeHook, FilterHook, Hooks
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.instances import borrow_instance, return_instance
from aerobee.client.instance.lifetime import Lifetime
from aerobee.client.message import (
    GROUP_CHARACTERS_MAX,
    MessageQueue,
    check_name,
    check_queue,
    check_topic,
)
from aerobee.client.plain.group_presence import GroupPresence
from aerobee.client.pulls.puller import Puller, PullResult, PullTerms
from aerobee.client.pulls.subscriptions import ALL, Subscription, parse_subscription
from aerobee.client.settings import (
    ClientSettings,
    PullConsumerSettings,
    PullSettings,
    given,
)
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

Pulled = Callable[[PullResult | AerobeeError], None]
"""Called with what a pull brought, or why it failed (PullCallback.java)."""


class PullConsumer(Lifetime):
    """One pull at a time, wherever the caller wants (DefaultMQPullConsumer.java).

        async def main() -> None:
            async with PullConsumer("reports", namesrv="127.0.0.1:9876") as consumer:
                for queue in await consumer.fetch_queues("orders"):
                    result = await consumer.pull(queue, await consumer.committed(queue) or 0)
                    print(queue.queue_id, result.status.name, len(result.messages), flush=True)
                    await consumer.commit(queue, result.next_offset)

        asyncio.run(main())

    Offsets count messages of a queue, from 0; times are milliseconds. Calls raise Unavailable where
    nobody answers in `PullConsumerSettings.timeout_ms` (10 s), BrokerRefused where a broker says
    no, InvalidUse before `start`; nothing is tried again by itself.

    It shares no queues, nobody waits for it, and it waits for nobody. Brokers know of it only if it
    names `topics`: it is then listed among the group's consumers (DefaultMQPullConsumer's
    registerTopics). Push and lite pull consumers leave a share of the queues to whoever is listed
    in their group, be it another kind of consumer, so that what is listed needs a group without
    them: `start` refuses another one, and when they come later it is listed no more, with a warning
    in the log. Java's client is always listed, and takes shares that nobody reads.
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
        check_name("group", group, GROUP_CHARACTERS_MAX)
        self.group = group
        self.settings = given("settings", settings, PullConsumerSettings)
        self._namesrv = parse_namesrv(namesrv)
        self._client = given("client", client, ClientSettings)
        self._hooks = Hooks.of(hooks)
        names = several("topics", "a sequence of topics", topics)
        self._topics = tuple(check_topic(text("each of topics", name)) for name in names)
        self._presence: GroupPresence | None = None
        self._replicas: dict[MessageQueue, int] = {}  # where brokers advised to pull from next

    # --- life ---

    async def start(self) -> None:
        """Make ready, and let brokers list the consumer if it names topics.

        Raises InvalidUse when started already, or where it would be given a share of the queues.
        """
        self._check_not_started()
        group = self.group if self._topics else None
        instance = self._instance = borrow_instance(self._namesrv, self._client, group)
        self._hooks.begin(lambda: instance.client_id, broadcasts=False)
        self._tasks = Tasks()
        timeout_ms = self._client.offset_timeout_ms
        # as pulls do: others may own the queues, and looking at them takes nothing
        self._group_offsets = GroupOffsets(instance.as_stranger, self.group, timeout_ms)
        if group is not None:
            presence = self._presence = GroupPresence(instance, group, self._topics)
            async with self._or_close() as go_on:
                await instance.identify()
                go_on()
                await presence.join()

    async def close(self) -> None:
        """Stop; pulls with a callback that still wait are given up, and call nobody."""
        await self._close_once(self._leave)

    async def _leave(self, instance: ClientInstance) -> None:
        presence, self._presence = self._presence, None
        async with contextlib.AsyncExitStack() as last:  # each of them, whatever the others raise
            group = self.group if presence is not None else None
            last.push_async_callback(return_instance, instance, group)
            if presence is not None:
                last.callback(presence.vanish)
            await self._tasks.close()
            if presence is not None:
                await presence.leave()

    # --- pulls ---

    async def pull(
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
        settings = self._pulls(messages_max, timeout_ms)
        return await self._pull(queue, offset, tags, sql, settings, suspends=False)

    async def pull_when_available(
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
        status is NO_NEW_MSG (pullBlockIfNotFound). Arguments and errors are those of `pull`.
        """
        settings = self._pulls(messages_max, self.settings.suspend_timeout_ms)
        return await self._pull(queue, offset, tags, sql, settings, suspends=True)

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

        Raises InvalidUse for what is wrong with the arguments.
        """
        settings = self._pulls(messages_max, timeout_ms)
        function("callback", callback)
        self._check(queue, offset)
        parse_subscription(queue.topic, tags, sql)
        work = partial(self._pull, queue, offset, tags, sql, settings, suspends=False)
        self._tasks.start(_call_back(work, callback), f"pull {queue}")

    async def pull_oneway(self, queue: MessageQueue, offset: int) -> None:
        """Let the broker read `queue` from `offset` on, and take no answer.

        What it read is then in its memory (CommunicationMode.ONEWAY). Raises InvalidUse,
        Unavailable.
        """
        settings = self._pulls(None, None)
        instance = self._check(queue, offset)
        subscription = parse_subscription(queue.topic)
        puller = self._puller(instance, queue, subscription, settings, suspends=False)
        await puller.pull_oneway(offset)

    # --- queues and offsets ---

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of `topic` that can be read, as a nameserver knows them now.

        Raises RouteMissing, Unavailable.
        """
        check_topic(topic)
        return list((await self._started().routes.get_anew(topic)).read_queues)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset as the broker has it; None if it has none."""
        return await self._offsets(queue).committed(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the offset of the next message to consume; raises Unavailable, BrokerRefused."""
        offset = whole_number("offset", offset, 0, OFFSET_MAX)
        told = self._offsets(queue).commit(queue, offset)
        await self._hooks.settled("commit", self.group, queue, [], told)

    async def oldest_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message that the broker has."""
        return await self._offsets(queue).oldest(queue)

    async def newest_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return await self._offsets(queue).newest(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later."""
        timestamp_ms = whole_number("timestamp_ms", timestamp_ms, 0, OFFSET_MAX)
        return await self._offsets(queue).at_time(queue, timestamp_ms)

    # --- within ---

    def _offsets(self, queue: MessageQueue) -> GroupOffsets:
        check_queue(queue)
        self._started()
        return self._group_offsets

    def _pulls(self, messages_max: int | None, timeout_ms: int | None) -> PullSettings:
        settings = self.settings
        if messages_max is not None:
            messages_max = whole_number("messages_max", messages_max)
        if timeout_ms is not None:
            timeout_ms = whole_number("timeout_ms", timeout_ms)
        return PullSettings(
            batch_messages=settings.batch_messages if messages_max is None else messages_max,
            batch_bytes=settings.batch_bytes,
            body_bytes_max=settings.body_bytes_max,
            unpacked_bytes_max=settings.unpacked_bytes_max,
            suspend_ms=settings.suspend_ms,
            timeout_ms=settings.timeout_ms if timeout_ms is None else timeout_ms,
        )

    def _check(self, queue: MessageQueue, offset: int) -> ClientInstance:
        check_queue(queue)
        whole_number("offset", offset, 0, OFFSET_MAX)
        return self._started()

    def _puller(
        self,
        instance: ClientInstance,
        queue: MessageQueue,
        subscription: Subscription,
        settings: PullSettings,
        *,
        suspends: bool,
    ) -> Puller:
        terms = PullTerms(self.group, settings, self._hooks, subscribed=False, suspends=suspends)
        replica = self._replicas.get(queue, MASTER_ID)
        return Puller(instance.as_stranger, terms, queue, subscription, replica)

    async def _pull(
        self,
        queue: MessageQueue,
        offset: int,
        tags: str,
        sql: str | None,
        settings: PullSettings,
        *,
        suspends: bool,
    ) -> PullResult:
        instance = self._check(queue, offset)
        subscription = parse_subscription(queue.topic, tags, sql)
        puller = self._puller(instance, queue, subscription, settings, suspends=suspends)
        result = await puller.pull(offset)
        if puller.broker_id == MASTER_ID:
            self._replicas.pop(queue, None)
        else:
            self._replicas[queue] = puller.broker_id
        self._hooks.handed_out(self.group, queue, result.messages)
        return result


async def _call_back(work: Callable[[], Awaitable[PullResult]], callback: Pulled) -> None:
    outcome: PullResult | AerobeeError
    try:
        outcome = await work()
    except AerobeeError as error:
        outcome = error
    try:
        callback(outcome)
    except Exception:
        log.exception("callback of a pull failed")
