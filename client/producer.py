"""A client that sends messages."""

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from aerobee.client.errors import InvalidUse, SendFailed
from aerobee.client.hooks import SendContext, SendHook
from aerobee.client.instance import ClientInstance
from aerobee.client.message import (
    GROUP_CHARACTERS_MAX,
    TOPIC_CHARACTERS_MAX,
    Message,
    MessageQueue,
    SendResult,
    SendStatus,
    check_message,
    check_name,
)
from aerobee.client.retries import worth_retrying
from aerobee.client.route_cache import TopicRoute
from aerobee.client.selectors import QueueSelector, RoundRobin, by_key
from aerobee.client.sending import Outgoing, Packer, read_reply
from aerobee.client.settings import ClientSettings, ProducerSettings
from aerobee.client.sharing import parse_namesrv, return_instance, share_instance
from aerobee.remoting.errors import AerobeeError, CallTimedOut

log = logging.getLogger(__name__)

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"


class Producer:
    """Sends messages to the brokers of their topics (DefaultMQProducer.java).

        async with Producer(namesrv="127.0.0.1:9876") as producer:
            result = await producer.send(Message("orders", b"one", tags="new", keys="o-1"))

    Many sends may run at the same time (asyncio.gather, tasks): requests of one moment leave in one
    write. Delivery is at least once: a send that failed without an answer may have been stored.
    """

    def __init__(
        self,
        group: str = DEFAULT_GROUP,
        *,
        namesrv: str | Sequence[str],
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Describe the producer; nothing happens before `start`.

        `namesrv` is "host:port;host:port" or a sequence. Raises InvalidMessage for a bad group.
        """
        check_name("group", group, GROUP_CHARACTERS_MAX)
        self.group = group
        self.settings = settings or ProducerSettings()
        self._client = client or ClientSettings()
        self._namesrv = parse_namesrv(namesrv)
        self._hooks = tuple(hooks)
        self._packer = Packer(group, self.settings)
        self._turns: dict[str, RoundRobin] = {}
        self._instance: ClientInstance | None = None

    async def start(self) -> None:
        """Get ready; connections are made when they are needed. Raises InvalidUse when started."""
        if self._instance is not None:
            raise InvalidUse("the producer is started already")
        self._instance = share_instance(self._namesrv, self._client)
        await self._instance.add_producer(self.group)

    async def close(self) -> None:
        """Say good-bye to the brokers; sends that still wait for a reply may fail."""
        instance, self._instance = self._instance, None
        if instance is not None:
            try:
                await instance.remove_producer(self.group)
            finally:
                await return_instance(instance)

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

    # --- sending ---

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and return where it went.

        The queues of the topic take turns, unless `queue` names one, `key` picks one (equal keys,
        same queue) or `selector` does. Within `timeout_ms` (default 3,000 for all attempts) a
        failed send is tried again up to `retries_max` times, at another broker first; not where
        the queue was chosen. Raises InvalidMessage, RouteMissing, BrokerRefused for a refusal that
        is final, SendFailed when the attempts or the time are used up.
        """
        check_message(message, self.settings.body_bytes_max)
        instance = self._started()
        deadline = self._deadline(timeout_ms)
        route = await self._route(message.topic)
        outgoing = self._packer.pack(message)
        if queue is not None or key is not None or selector is not None:
            chosen = self._choose(route, message, queue, key, selector)
            return await self._attempt(instance, [message], outgoing, chosen, deadline)
        return await self._send_anywhere(instance, [message], outgoing, route, deadline)

    async def send_many(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic as one request; they get consecutive offsets of one queue.

        Together they may have `body_bytes_max` bytes. Otherwise as `send`; the result's
        `message_id` joins the ids by commas, its `queue_offset` is that of the first message.
        """
        for message in messages:
            check_message(message, self.settings.body_bytes_max)
        instance = self._started()
        deadline = self._deadline(timeout_ms)
        outgoing = self._packer.pack_batch(messages)
        route = await self._route(outgoing.topic)
        if queue is not None or key is not None or selector is not None:
            chosen = self._choose(route, messages[0], queue, key, selector)
            return await self._attempt(instance, list(messages), outgoing, chosen, deadline)
        return await self._send_anywhere(instance, list(messages), outgoing, route, deadline)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send one message and do not wait: whether it was stored is never known.

        It waits only for the route and a connection. Raises InvalidMessage, RouteMissing,
        Unavailable without connection.
        """
        check_message(message, self.settings.body_bytes_max)
        instance = self._started()
        route = await self._route(message.topic)
        outgoing = self._packer.pack(message)
        chosen = self._choose(route, message, queue, key, selector)
        address = await instance.routes.broker_address(chosen)
        context = self._before([message], chosen, address, oneway=True)
        if context is not None:
            outgoing = self._packer.pack_again([message], outgoing)
        try:
            await instance.connections.oneway(
                address, outgoing.code, self._packer.fields(outgoing, chosen), outgoing.body
            )
        except AerobeeError as error:
            self._after(context, error=error)
            raise
        self._after(context)

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of `topic` can be sent to.

        Raises RouteMissing, Unavailable.
        """
        check_name("topic", topic, TOPIC_CHARACTERS_MAX)
        self._started()
        return list((await self._route(topic)).write_queues)

    # --- one send ---

    async def _send_anywhere(
        self,
        instance: ClientInstance,
        messages: list[Message],
        outgoing: Outgoing,
        route: TopicRoute,
        deadline: float,
    ) -> SendResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        turns = self._turns[outgoing.topic]
        tried: list[str] = []
        result: SendResult | None = None
        error: Exception | None = None
        while len(tried) <= self.settings.retries_max and loop.time() < deadline:
            queue = turns.pick(route.write_queues, tried[-1] if tried else None)
            tried.append(queue.broker_name)
            try:
                result = await self._attempt(instance, messages, outgoing, queue, deadline)
            except AerobeeError as failure:
                if not worth_retrying(failure):
                    if result is not None:
                        return result
                    raise
                error = failure
                log.warning("send failed, resend at once: queue=%s error=%s", queue, failure)
                continue
            stored = result.status is SendStatus.SEND_OK
            if stored or not self.settings.retry_other_broker_when_not_stored:
                return result
        if result is not None:
            return result
        raise SendFailed(outgoing.topic, tried, round((loop.time() - began) * 1000)) from error

    async def _attempt(
        self,
        instance: ClientInstance,
        messages: list[Message],
        outgoing: Outgoing,
        queue: MessageQueue,
        deadline: float,
    ) -> SendResult:
        address = instance.routes.address(queue.broker_name)
        if address is None:
            address = await instance.routes.broker_address(queue)
        context = self._before(messages, queue, address)
        if context is not None:
            outgoing = self._packer.pack_again(messages, outgoing)
        left_ms = round((deadline - asyncio.get_running_loop().time()) * 1000)
        try:
            if left_ms <= 0:
                raise CallTimedOut(f"no time left to send to {address}")
            reply = await instance.connections.call(
                address,
                outgoing.code,
                self._packer.fields(outgoing, queue),
                outgoing.body,
                timeout_ms=left_ms,
            )
            result = read_reply(reply, outgoing, queue, address)
        except AerobeeError as error:
            self._after(context, error=error)
            raise
        self._after(context, result)
        return result

    def _choose(
        self,
        route: TopicRoute,
        message: Message,
        queue: MessageQueue | None,
        key: str | int | None,
        selector: QueueSelector | None,
    ) -> MessageQueue:
        if (queue is not None) + (key is not None) + (selector is not None) > 1:
            raise InvalidUse("give one of queue, key and selector")
        if queue is not None:
            if queue.topic != message.topic:
                raise InvalidUse(f"queue {queue} does not belong to topic {message.topic!r}")
            return queue
        if key is not None:
            selector = by_key(key)
        if selector is None:
            return self._turns[route.topic].pick(route.write_queues)
        chosen = selector(route.write_queues, message)
        if chosen not in route.write_queues:
            raise InvalidUse(f"the selector returned {chosen}, which is no queue of the topic")
        return chosen

    async def _route(self, topic: str) -> TopicRoute:
        instance = self._started()
        route = instance.routes.routes.get(topic)
        if route is None or not route.write_queues or topic not in self._turns:
            check_name("topic", topic, TOPIC_CHARACTERS_MAX)
            route = await instance.routes.for_sending(
                topic, self.settings.create_topic_key, self.settings.default_topic_queues
            )
            instance.keep_route(topic)
            self._turns.setdefault(topic, RoundRobin())
        return route

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise InvalidUse("the producer is not started, or closed; use `async with`")
        return self._instance

    def _deadline(self, timeout_ms: int | None) -> float:
        budget_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        return asyncio.get_running_loop().time() + budget_ms / 1000

    # --- hooks ---

    def _before(
        self, messages: list[Message], queue: MessageQueue, address: str, *, oneway: bool = False
    ) -> SendContext | None:
        if not self._hooks:
            return None
        context = SendContext(self.group, messages, queue, address, oneway)
        for hook in self._hooks:
            hook.before(context)
        return context

    def _after(
        self,
        context: SendContext | None,
        result: SendResult | None = None,
        error: Exception | None = None,
    ) -> None:
        if context is None:
            return
        context.result, context.error = result, error
        for hook in self._hooks:
            try:
                hook.after(context)
            except Exception:
                log.exception("send hook failed hook=%s", type(hook).__name__)
