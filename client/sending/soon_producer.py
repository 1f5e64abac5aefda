"""What a producer sends without waiting: `send_soon`, and how much of it there may be."""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic

from aerobee.client.cluster.outages import Outages
from aerobee.client.errors import InvalidUse
from aerobee.client.hooks import SendHook
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.message import Message, MessageQueue, SendResult, check_message
from aerobee.client.sending.arguments import check_timeout
from aerobee.client.sending.attempts import AttemptLimits, Attempts, FirstAttempt
from aerobee.client.sending.doors import Doors
from aerobee.client.sending.due import due
from aerobee.client.sending.fast import Handle
from aerobee.client.sending.frames import SendHeaders
from aerobee.client.sending.outgoing import Outgoing, Packer
from aerobee.client.sending.queue_finder import QueueFinder
from aerobee.client.sending.retries import worth_retrying
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.sending.soon import SoonSends
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)


class SoonProducer(QueueFinder):
    """The part of a producer that sends in the plain way, and knows what has no outcome yet."""

    _packer: Packer
    _headers: SendHeaders
    _outages: Outages
    _hooks: tuple[SendHook, ...]
    _sends: SoonSends | None = None  # from a start to its close

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
    ) -> Handle:
        """Send one message without waiting, and return its handle; the arguments are as for `send`.

            handle = producer.send_soon(message)  # a plain call
            ...
            result = await handle  # or handle.done, handle.error, handle.add_done_callback(...)

        Messages of one turn of the loop leave in one write. Each gets its outcome, with the retries
        of `send`, within `timeout_ms` from this call. Messages whose queue was chosen are
        written in the order of these calls, and Aerobee's broker stores them so (RocketMQ's serves
        a connection by several threads); one that fails is left out, not tried again.

        Nothing is taken while messages of `ProducerSettings.send_soon_bytes_max` bytes (64 MiB)
        have no outcome yet: SendQueueFull. A loop that never awaits gets no outcomes either: look
        at `full`, and `await room()`. Also raises InvalidMessage and InvalidUse; what else `send`
        raises is the handle's.
        """
        if deliver_at is not None or delay is not None:
            check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
            message = due(message, deliver_at, delay)
        if timeout_ms is not None:
            check_timeout(timeout_ms)
        sends = self._sends
        if sends is None:
            self._started()  # raises, but while it starts
            raise InvalidUse("the producer is not started yet")
        handle = sends.sender.begin(message, queue, key, selector, timeout_ms, True)
        if handle is None:
            return sends.begin(message, queue, key, selector, timeout_ms)
        return handle

    @property
    def full(self) -> bool:
        """Whether `send_soon` takes nothing more before others have their outcome."""
        return self._sends is not None and self._sends.is_full

    @property
    def held(self) -> int:
        """How many messages of `send_soon` have no outcome yet."""
        return 0 if self._sends is None else self._sends.sender.held

    @property
    def held_bytes(self) -> int:
        """The bytes of these messages: their bodies, and 128 for each."""
        return 0 if self._sends is None else self._sends.sender.held_bytes

    async def room(self) -> None:
        """Return when `send_soon` takes messages: at once unless the producer is `full`."""
        if self._sends is not None:
            await self._sends.room()

    async def flush(self) -> None:
        """Return when each message of `send_soon` has its outcome; failures are the handles'."""
        if self._sends is not None:
            await self._sends.flush()

    def _begin_send(
        self,
        message: Message,
        queue: MessageQueue | None,
        key: str | int | None,
        selector: QueueSelector | None,
        timeout_ms: int | None,
    ) -> Handle | None:
        """Begin what `send` awaits; None where it does not go the plain way."""
        sends = self._sends
        if sends is None:
            return None
        return sends.sender.begin(message, queue, key, selector, timeout_ms, False)

    async def _send_again(
        self, message: Message, handle: Handle, error: AerobeeError
    ) -> SendResult:
        """Go on with a message that failed in the plain way, if that is worth it."""
        queue, settings = handle.queue, self.settings
        if queue is None:
            raise error
        outgoing = self._packer.pack(message, handle.message_id or None)
        began_s = min(monotonic(), handle.deadline_s - settings.send_timeout_ms / 1000)
        first = FirstAttempt(queue, error, began_s)
        tries_max = 1 if handle.chosen else 1 + settings.retries_max
        return await self._deliver_after(first, message, outgoing, tries_max, handle.deadline_s)

    async def _deliver_after(
        self,
        first: FirstAttempt,
        message: Message,
        outgoing: Outgoing,
        tries_max: int,
        deadline_s: float,
    ) -> SendResult:
        """Go on with a message whose first attempt has failed."""
        limits = AttemptLimits(tries_max, self.settings.retries_max, first.began_s, deadline_s)
        attempts = Attempts(outgoing.topic, limits, worth_retrying, self._outages)
        queues: Sequence[MessageQueue] = [first.queue]
        if tries_max > 1 and (route := self._known_route(outgoing.topic)) is not None:
            queues = route.write_queues
        if not await attempts.another(first.queue, first.error, queues):
            attempts.raise_last()
        return await self._deliver(
            [message], outgoing, queues, tries_max, deadline_s, attempts=attempts
        )

    def _doors(self, instance: ClientInstance) -> Doors:
        """Return what sends in the plain way may use."""
        settings = self.settings
        watched = self._hooks or self._choice.tolerance is not None
        return Doors(
            settings, self._packer, self._headers, self._choice, instance.routes.routes,
            self._outages, self._open_here, self._connect, self._route, self._deliver,
            self._deliver_after,
            plain=not watched and not settings.retry_other_broker_when_not_stored,
        )  # fmt: skip

    def _open_here(self, queue: MessageQueue) -> Connection | None:
        """Return what `_open` does, once a turn; raises InvalidUse in another event loop."""
        instance = self._instance
        if instance is not None and instance.loop is not asyncio.get_running_loop():
            raise InvalidUse(self._foreign(instance))
        return self._open(queue)

    @abstractmethod
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
        """Send a message by the checked path."""
