"""A client that sends messages."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from aerobee.client.cluster.address_server import parse_namesrv
from aerobee.client.cluster.outages import Outages
from aerobee.client.hooks import RecallContext, SendContext, SendHook, with_everywhere
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.instances import borrow_instance, return_instance
from aerobee.client.message import (
    GROUP_CHARACTERS_MAX,
    Message,
    MessageQueue,
    SendResult,
    SendStatus,
    check_message,
    check_name,
    check_topic,
)
from aerobee.client.sending.arguments import check_hooks, check_messages, check_timeout
from aerobee.client.sending.attempts import AttemptLimits, Attempts, sending_to
from aerobee.client.sending.choice import QueueChoice
from aerobee.client.sending.due import due
from aerobee.client.sending.frames import SendHeaders
from aerobee.client.sending.outgoing import Outgoing, Packer, read_reply
from aerobee.client.sending.recalls import read_handle, recall
from aerobee.client.sending.retries import surely_not_stored, worth_retrying
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.sending.soon import SoonSends
from aerobee.client.sending.soon_producer import SoonProducer
from aerobee.client.settings import ClientSettings, ProducerSettings, given
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.command import next_opaque
from aerobee.remoting.errors import AerobeeError, NotConnected

if TYPE_CHECKING:
    from aerobee.client.traces.hook import TraceHook

DEFAULT_GROUP: Final = "DEFAULT_PRODUCER"


class Producer(SoonProducer):
    """Sends messages to the brokers of their topics (DefaultMQProducer.java).

        async with Producer("orders-producers", namesrv="127.0.0.1:9876") as producer:
            result = await producer.send(Message("orders", b"one", tags="new"), key="o-1")
            print(result.status.name, result.queue.queue_id, result.queue_offset)

    `send` waits for the broker's word on one message, `send_many` on a batch of one topic,
    `send_oneway` for nothing. Many sends may run at the same time (asyncio.gather, tasks): requests
    of one moment leave in one write. One producer does for a process; it belongs to the event loop
    in which it was started.

    Times are milliseconds; a send takes 3,000 at most unless it says otherwise, and a body has
    4 MiB at most (ProducerSettings). Delivery is at least once: a send that failed without an
    answer may have been stored. All errors are ClientErrors: InvalidMessage and InvalidUse are the
    program's, the others the cluster's.
    """

    _watched_everywhere = True  # by the hooks of every client

    def __init__(
        self,
        group: str = DEFAULT_GROUP,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Describe the producer; nothing happens before `start`.

        `group` is the name by which brokers know all the processes of one program. `namesrv` is
        "host:port;host:port", a sequence, or the URL of an address server; by default what the
        environment's NAMESRV_ADDR says. Raises InvalidMessage for a bad group, InvalidUse and
        BadAddress for other wrong arguments.
        """
        check_name("group", group, GROUP_CHARACTERS_MAX)
        self.group = group
        self.settings = given("settings", settings, ProducerSettings)
        self._client = given("client", client, ClientSettings)
        self._namesrv = parse_namesrv(namesrv)
        self._hooks = check_hooks(hooks)
        self._trace: TraceHook | None = None
        self._packer = Packer(group, self.settings)
        self._headers = SendHeaders(group, self.settings)
        self._choice = QueueChoice(self.settings.latency)
        self._outages: Outages  # of the instance
        self._listed = False  # among the producers that heartbeats mention

    async def start(self) -> None:
        """Get ready; connections are made when they are needed. Raises InvalidUse when started."""
        self._check_not_started()
        instance = self._instance = borrow_instance(self._namesrv, self._client)
        if self._watched_everywhere:
            self._hooks = tuple(with_everywhere(self._hooks, SendHook))
        self._outages = instance.routes.outages
        async with self._or_close() as go_on:
            await instance.identify()
            go_on()
            if self._client.enable_trace:
                self._begin_trace()
            self._sends = SoonSends(self._doors(instance))
            self._listed = True
            await self._join(instance)
            if (tolerance := self._choice.tolerance) is not None:
                tolerance.start(instance.brokers, lambda: list(self._choice.turns))

    async def _join(self, instance: ClientInstance) -> None:
        """Let brokers know of the group."""
        await instance.add_producer(self.group)

    async def close(self) -> None:
        """Say good-bye to the brokers; sends that still wait for a reply may fail.

        What `send_soon` has taken gets its outcome first, within the time of its send.
        """
        try:
            if self._sends is not None and not self._leaving:
                await self._sends.finish()
        finally:
            await self._close_once(self._leave)

    async def _leave(self, instance: ClientInstance) -> None:
        listed, self._listed = self._listed, False
        sends, self._sends = self._sends, None
        async with contextlib.AsyncExitStack() as last:  # each of them, whatever the others raise
            last.push_async_callback(return_instance, instance)
            if sends is not None:
                last.push_async_callback(sends.end)
            if self._trace is not None:
                last.push_async_callback(self._trace.close)
            if (tolerance := self._choice.tolerance) is not None:
                last.push_async_callback(tolerance.close)
            if listed:
                await instance.remove_producer(self.group)

    def _begin_trace(self) -> None:
        """Have what is sent from now on traced; nothing of it is imported before."""
        from aerobee.client.sending import tracing

        others = tuple(hook for hook in self._hooks if hook is not self._trace)
        what = tracing.PRODUCE
        self._trace = tracing.trace_hook(self.group, self._namesrv, self._client, what)
        self._hooks = (*others, self._trace)

    # --- sending ---

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
    ) -> SendResult:
        """Send one message and return where it went.

            result = await producer.send(message, key="order-1", timeout_ms=10_000)
            await producer.send(message, delay=timedelta(minutes=10))

        The queues of the topic take turns, unless `queue` names one, `key` picks one (equal keys,
        same queue) or `selector` does. Within `timeout_ms` (default 3,000 for the topic's route and
        all attempts) a failed send is tried again up to `retries_max` times, at another broker
        first, and where no broker can be reached until the time is up. Where the queue was chosen
        that is done after a missing or lost connection alone.

        Consumers get it at `deliver_at`, a datetime with a time zone, or after `delay`: at once
        where that is over. Milliseconds count; a broker says how far ahead it takes them (three
        days by default), and RocketMQ's delivers up to a second late. `recall` takes it back.

        Raises InvalidMessage, InvalidUse, RouteMissing, BrokerRefused for a refusal that is final,
        Unavailable where no nameserver tells the route or the chosen queue's broker does not
        answer, SendFailed when the attempts or the time are used up.
        """
        if deliver_at is not None or delay is not None:
            check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
            message = due(message, deliver_at, delay)
        if timeout_ms is not None:
            check_timeout(timeout_ms)
        if (sends := self._sends) is not None and (
            handle := sends.sender.begin(message, queue, key, selector, timeout_ms, False)
        ):
            try:
                return await handle
            except AerobeeError as error:
                return await self._send_again(message, handle, error)
        check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
        deadline_s = self._deadline_s(timeout_ms)
        route = self._known_route(message.topic) or await self._route(message.topic, deadline_s)
        outgoing = self._packer.pack(message)
        if sends is not None:
            sends.learn(route)
        if queue is None and key is None and selector is None:
            tries_max, queues = 1 + self.settings.retries_max, route.write_queues
            return await self._deliver([message], outgoing, queues, tries_max, deadline_s)
        chosen = self._choice.choose(route, message, queue, key, selector)
        return await self._deliver([message], outgoing, [chosen], 1, deadline_s)

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

            result = await producer.send_many([Message("orders", b"%d" % at) for at in range(9)])
            print(result.queue_offset, result.message_id.count(",") + 1)

        Together they may have `body_bytes_max` bytes. Otherwise as `send`; the result's
        `message_id` joins the ids by commas, its `queue_offset` is that of the first message.
        """
        messages = check_messages(messages, self.settings)
        deadline_s = self._deadline_s(timeout_ms)
        outgoing = self._packer.pack_batch(messages)
        route = self._known_route(outgoing.topic) or await self._route(outgoing.topic, deadline_s)
        if queue is None and key is None and selector is None:
            tries_max, queues = 1 + self.settings.retries_max, route.write_queues
            return await self._deliver(messages, outgoing, queues, tries_max, deadline_s)
        chosen = self._choice.choose(route, messages[0], queue, key, selector)
        return await self._deliver(messages, outgoing, [chosen], 1, deadline_s)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send one message and do not wait: whether it was stored is never known.

            await producer.send_oneway(Message("orders", b"perhaps"))

        It waits only for the route and a connection. Raises InvalidMessage, RouteMissing,
        Unavailable without them in time.
        """
        check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
        deadline_s = self._deadline_s(None)
        route = self._known_route(message.topic) or await self._route(message.topic, deadline_s)
        chosen = self._choice.choose(route, message, queue, key, selector)
        connection = self._open(chosen) or await self._connect(chosen, deadline_s)
        outgoing = self._packer.pack(message)
        context = None
        if self._hooks:
            context, outgoing = self._watched(
                [message], outgoing, chosen, connection.remote, oneway=True
            )
        frame = self._headers.frame(outgoing, chosen, next_opaque(), oneway=True)
        try:
            connection.oneway_frame(frame)
        except AerobeeError as error:
            if context is not None:
                context.end(self._hooks, error=error)
            raise
        if context is not None:
            context.end(self._hooks)

    async def recall(self, sent: SendResult | str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time, and return its id.

            sent = await producer.send(message, delay=timedelta(hours=1))
            await producer.recall(sent)  # or sent.recall_handle, which can be kept as text

        Success means that the broker has noted it: what is delivered at this very moment may still
        arrive. Raises InvalidMessage for what is no handle, BrokerRefused where the broker does not
        recall (code 16; see its recallMessageEnable) or the time is over (604), RouteMissing,
        Unavailable.
        """
        check_timeout(timeout_ms)
        handle = read_handle(sent)
        budget_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        told = RecallContext(self.group, handle.queue.topic, handle.message_id, succeeded=False)
        try:
            brokers = self._started().brokers
            message_id, told.region = await recall(brokers, self.group, handle, budget_ms)
            told.succeeded = True
        finally:
            told.tell(self._hooks)
        return message_id

    async def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that `topic` can be sent to, as a nameserver knows them now.

            queues = await producer.fetch_queues("orders")
            await producer.send(Message("orders", b"here"), queue=queues[0])

        Raises RouteMissing, Unavailable.
        """
        check_topic(topic)
        await self._started().routes.refresh(topic)
        return list((await self._route(topic)).write_queues)

    # --- one send ---

    async def _deliver(
        self,
        messages: list[Message],
        outgoing: Outgoing,
        queues: Sequence[MessageQueue],
        tries_max: int,
        deadline_s: float,
        again: Callable[[Exception], bool] = worth_retrying,
        attempts: Attempts | None = None,
    ) -> SendResult:
        """Try up to `tries_max` queues, each time of another broker if there is one.

        `again` tells which failure is worth that, `attempts` are those of a send that has failed in
        the plain way. (DefaultMQProducerImpl.sendDefaultImpl, sendSelectImpl)
        """
        turns, tolerance = self._choice.turns[outgoing.topic], self._choice.tolerance
        enough = again is surely_not_stored or not self.settings.retry_other_broker_when_not_stored
        result: SendResult | None = None
        began_s = now_s = monotonic()
        while True:
            queue = turns.pick(queues, None if attempts is None else attempts.brokers[-1])
            attempt_s = now_s
            context, failed = None, None
            try:
                if (connection := self._open(queue)) is None:
                    connection = await self._connect(queue, deadline_s)
                    now_s = monotonic()
                if (left_s := deadline_s - now_s) <= 0:
                    raise NotConnected(f"{connection.remote}: the send's time was up before it")
                if self._hooks:
                    context, outgoing = self._watched(messages, outgoing, queue, connection.remote)
                frame = self._headers.frame(outgoing, queue, opaque := next_opaque())
                ack = await connection.begin_frame(frame, opaque, outgoing.code, left_s, brief=True)
                result = read_reply(ack, outgoing, queue, connection.remote)
            except BaseException as failure:
                if context is not None:
                    context.end(self._hooks, error=failure)
                if not isinstance(failure, AerobeeError):
                    raise  # cancelled, most often
                failed = failure
                self._choice.failed(queue, failure)
            else:
                if context is not None:
                    context.end(self._hooks, result)
                if tolerance is not None:
                    tolerance.succeeded(queue.broker_name, monotonic() - attempt_s)
                if self._outages.lasting:
                    self._outages.over(sending_to(queue))
                if enough or result.status is SendStatus.SEND_OK:
                    return result
            if attempts is None:
                limits = AttemptLimits(tries_max, self.settings.retries_max, began_s, deadline_s)
                attempts = Attempts(outgoing.topic, limits, again, self._outages)
            if not await attempts.another(queue, failed, queues):
                if result is not None:
                    return result
                attempts.raise_last()
            now_s = monotonic()
            if tries_max > 1 and (route := self._known_route(outgoing.topic)) is not None:
                queues = route.write_queues  # a broker may be elsewhere by now

    def _client_id(self) -> str:
        """Return the name that brokers know the client by; a send may outlast it."""
        return "" if self._instance is None else self._instance.client_id

    def _watched(
        self,
        messages: list[Message],
        outgoing: Outgoing,
        queue: MessageQueue,
        address: str,
        *,
        oneway: bool = False,
    ) -> tuple[SendContext, Outgoing]:
        """Call the hooks before an attempt; return what is ready then: they may change messages."""
        half = bool(outgoing.sys_flag & SysFlag.TRANSACTION_PREPARED)
        context = SendContext(
            self.group, messages, queue, address, oneway, half=half,
            client_id=self._client_id(),
        )  # fmt: skip
        context.begin(self._hooks)
        try:
            return context, self._packer.pack_again(messages, outgoing)
        except AerobeeError as error:  # they have made of it what cannot be sent
            context.end(self._hooks, error=error)
            raise
