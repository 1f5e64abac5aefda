"""A producer whose methods wait for their answers."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any

from aerobee.client.errors import SendQueueFull
from aerobee.client.hooks import SendHook
from aerobee.client.message import Message, MessageQueue, SendResult, check_message, check_topic
from aerobee.client.sending.arguments import check_timeout
from aerobee.client.sending.choice import check_choice
from aerobee.client.sending.due import due
from aerobee.client.sending.producer import DEFAULT_GROUP
from aerobee.client.sending.producer import Producer as AsyncProducer
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.settings import ClientSettings, ProducerSettings
from aerobee.client.sync.calls import wait_s
from aerobee.client.sync.lifetime import BlockingClient
from aerobee.client.sync.loop_thread import LoopThread
from aerobee.client.sync.sends import SendCall
from aerobee.client.sync.soon import SendHandle, SoonSends


class Producer(BlockingClient[AsyncProducer]):
    """Sends messages to the brokers of their topics, and waits for their answers.

        with Producer(namesrv="127.0.0.1:9876") as producer:
            result = producer.send(Message("orders", b"one", tags="new", keys="o-1"))

    Many threads may use one producer at the same time: their requests of one moment leave in one
    write. Delivery is at least once: a send that failed without an answer may have been stored.
    """

    _role = "producer"

    def __init__(
        self,
        group: str = DEFAULT_GROUP,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Describe the producer; nothing happens before `start`, no thread is made.

        `namesrv` is "host:port;host:port" or a sequence. Hooks are called in the loop's thread.
        Raises InvalidMessage for a bad group.
        """
        self._wrap(
            AsyncProducer(group, namesrv=namesrv, settings=settings, client=client, hooks=hooks),
            hooks,
        )

    def _wrap(self, inner: AsyncProducer, hooks: Sequence[SendHook]) -> None:
        super().__init__(inner, inner.group)
        self.settings = inner.settings
        self._hooked = bool(hooks)
        self._soon: SoonSends | None = None  # from a start to its close

    def _on_thread(self, thread: LoopThread) -> None:
        super()._on_thread(thread)
        self._soon = SoonSends(thread, self._inner, hooked=self._hooked)

    def send(
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
        """Send one message, wait for the broker's answer and return where it went.

            producer.send(message, delay=timedelta(minutes=10))

        The queues of the topic take turns, unless `queue` names one, `key` picks one (equal keys,
        same queue) or `selector` does, which is called in the loop's thread. Within `timeout_ms`
        (default 3,000 for the topic's route and all attempts) a failed send is tried again up to
        `ProducerSettings.retries_max` times; not where the queue was chosen. Consumers get it at
        `deliver_at`, a datetime with a time zone, or after `delay`; `recall` takes it back.

        Raises InvalidMessage, InvalidUse, RouteMissing, BrokerRefused for a refusal that is final,
        Unavailable where no nameserver tells the route or the chosen queue's broker does not
        answer, SendFailed when the attempts or the time are used up. Interrupted by Ctrl-C it is
        cancelled: whether the message was stored is not known then.
        """
        if deliver_at is not None or delay is not None:
            check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
            message = due(message, deliver_at, delay)
        check_timeout(timeout_ms)
        thread = self._usable()
        how = {"queue": queue, "key": key, "selector": selector, "timeout_ms": timeout_ms}
        call = SendCall(thread, self._inner, message, how)
        thread.post(call)
        return call.wait()

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
        block: bool = True,
    ) -> SendHandle:
        """Send one message without waiting, and return its handle; the arguments are as for `send`.

            handles = [producer.send_soon(message) for message in messages]
            for handle in handles:
                print(handle.result().queue_offset)  # or handle.done, handle.error

        Each message gets its outcome, with the retries of `send`, within `timeout_ms` from when the
        loop has taken it, which is at once while there is room. One thread's messages whose queue
        was chosen are written in the order of its calls; one that fails is left out.

        While messages of `ProducerSettings.send_soon_bytes_max` bytes (64 MiB), or 16,384 of them,
        have no outcome, this waits until about a quarter of them has; with `block=False` it raises
        SendQueueFull, a BufferError, too. Also raises InvalidMessage and InvalidUse at once; what
        else `send` raises is the handle's.
        """
        check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
        if deliver_at is not None or delay is not None:
            message = due(message, deliver_at, delay)
        check_topic(message.topic)
        check_choice(queue, key, selector)
        check_timeout(timeout_ms)
        thread, soon = self._usable(waits=False), self._soon
        assert soon is not None
        while soon.is_full:
            if not block:
                raise SendQueueFull(soon.held, soon.held_bytes)
            thread.check_may_wait()
            soon.wait_for_room(None)
        return soon.add(message, (queue, key, selector, timeout_ms))

    @property
    def full(self) -> bool:
        """Whether `send_soon` takes nothing more before others have their outcome."""
        return self._soon is not None and self._soon.is_full

    @property
    def held(self) -> int:
        """How many messages of `send_soon` have no outcome yet."""
        return self._soon.held if self._soon is not None else 0

    @property
    def held_bytes(self) -> int:
        """The bytes of these messages: their bodies, and 128 for each."""
        return self._soon.held_bytes if self._soon is not None else 0

    def room(self, timeout_ms: int | None = None) -> None:
        """Wait until `send_soon` takes messages: at once unless the producer is `full`.

        Raises TimeoutError where it is still full after `timeout_ms`.
        """
        self._usable()
        assert self._soon is not None
        if not self._soon.wait_for_room(wait_s(timeout_ms)):
            raise TimeoutError(f"there was no room within {timeout_ms} ms")

    def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until each message of `send_soon` has its outcome; failures are the handles'.

        Raises TimeoutError where something is still on its way after `timeout_ms`.
        """
        self._usable()
        assert self._soon is not None
        if not self._soon.flush(wait_s(timeout_ms)):
            raise TimeoutError(f"not all messages were answered within {timeout_ms} ms")

    def send_many(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic as one request; they get consecutive offsets of one queue.

        Together they may have `ProducerSettings.body_bytes_max` bytes. Otherwise as `send`; the
        result's `message_id` joins the ids by commas, its `queue_offset` is that of the first.
        """
        return self._run(
            self._inner.send_many(
                messages, queue=queue, key=key, selector=selector, timeout_ms=timeout_ms
            )
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send one message and wait for no answer: whether it was stored is never known.

        It waits only for the route and a connection. Raises InvalidMessage, RouteMissing,
        Unavailable without them in time.
        """
        self._run(self._inner.send_oneway(message, queue=queue, key=key, selector=selector))

    def recall(self, sent: SendResult | str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time, and return its id.

            sent = producer.send(message, delay=timedelta(hours=1))
            producer.recall(sent)  # or sent.recall_handle, which can be kept as text

        Success means that the broker has noted it: what is delivered at this very moment may still
        arrive. Raises InvalidMessage for what is no handle, BrokerRefused where the broker does not
        recall or the time is over, RouteMissing, Unavailable.
        """
        return self._run(self._inner.recall(sent, timeout_ms=timeout_ms))

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that `topic` can be sent to, as a nameserver knows them now.

        Raises RouteMissing, Unavailable.
        """
        return self._run(self._inner.fetch_queues(topic))

    def _close(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the answers to what was sent before the good-bye to the brokers."""
        try:
            if self._thread is not None and not self._thread.gone:
                self._usable()
                if self._soon is not None:
                    self._soon.flush(None)
        finally:
            super()._close(leave)
