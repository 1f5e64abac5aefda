"""Fetches one owned queue, again and again, for as long as it is owned."""

import asyncio
import logging
from typing import Final, Protocol

from aerobee.client.cluster.found import FoundReply
from aerobee.client.errors import BrokerRefused
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.flow_control import FlowControl
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.puller import Puller, PullResult
from aerobee.client.pulls.raw import PullStatus
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.pulls.steady import SteadyPulls
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError

log = logging.getLogger(__name__)

AT_ONCE_BYTES: Final = 16 * 1024
"""After so much the next request leaves at once, not with those of other queues: the broker is to
be at work while handlers are, and so much takes longer to handle than a write."""


class Receiver(Protocol):
    """Who has the messages of a queue from its pull loop on."""

    def deliver(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take what a pull brought; it is in `process` already."""
        ...

    def deliver_unreadable(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take what a pull brought and cannot be read; it is in `process` already."""
        ...

    def hold_ms(self, queue: MessageQueue) -> int:
        """How long the next pull has to wait; 0 lets it go."""
        ...

    async def correct(self, queue: MessageQueue, offset: int) -> None:
        """Go on at `offset`: the broker does not have what was asked for; this loop ends now."""
        ...


def merged(messages: list[ReceivedMessage], others: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """Return both in the order of their offsets."""
    if not others:
        return messages
    return sorted([*messages, *others], key=lambda message: message.queue_offset)


class PullLoop:
    """One queue's fetching (DefaultMQPushConsumerImpl.pullMessage).

    `receiver` gets what comes, by its queue's `process`; `counters` are counted up.
    """

    def __init__(
        self,
        process: ProcessQueue,
        puller: Puller,
        receiver: Receiver,
        flow: FlowControl | None = None,
        counters: TopicCounters | None = None,
    ) -> None:
        self._process = process
        self._puller = puller
        self._receiver = receiver
        self._queue = puller.queue
        self._settings = puller.settings
        self._flow = flow or FlowControl(puller.queue, puller.settings)
        self._counters = counters or TopicCounters()
        self._failures = 0  # in a row
        self._asked = 0  # the offset from which the pull begins that is on its way
        self._now = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Pull until the queue is dropped; whatever goes wrong, it goes on after a while."""
        while not self._process.dropped:
            try:
                if not await self._turn():
                    return
            except AerobeeError as error:
                await asyncio.sleep(self._delay_ms(error) / 1000)
            except Exception:
                log.exception("pull failed, trying again queue=%s", self._queue)
                await asyncio.sleep(self._settings.error_delay_ms / 1000)

    async def _turn(self) -> bool:
        """Pull, or wait until that may be; False where this loop has to end.

        While each pull brings messages and the next one may go at once this waits, and `_go_on`
        does all of it.
        """
        process = self._process
        process.pulling(self._now())
        if hold_ms := self._receiver.hold_ms(self._queue):
            await asyncio.sleep(hold_ms / 1000)
            return True
        if (exceeded := self._flow.exceeded(process)) is not None:
            await self._flow.wait(process, exceeded)
            return True
        steady = SteadyPulls(lambda reply: self._go_on(steady, reply))
        self._asked = process.next_offset
        await self._puller.begin(steady, self._asked, process.committable)
        try:
            reply = await steady.outcome
        finally:
            steady.outcome.cancel()  # what comes now is for nobody
        if reply is None:
            return True
        result = self._puller.read(reply, self._asked)
        self._answered()
        if process.dropped:
            return False
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._correct(result)
            return False
        self._take(result)
        return True

    def _go_on(self, steady: SteadyPulls, reply: Command | FoundReply) -> bool:
        """See to a reply that has brought messages, and pull on, as far as nothing is to wait for.

        False: it is another reply, or one that a program looks at; it is seen to by `_turn`.
        """
        process, puller = self._process, self._puller
        if reply.code != ResponseCode.SUCCESS or process.dropped or puller.is_hooked:
            return False
        result = puller.read(reply, self._asked)
        self._answered()
        self._take(result)
        process.pulling(self._now())
        if (
            process.dropped
            or self._receiver.hold_ms(self._queue)
            or self._flow.exceeded(process) is not None
        ):
            steady.rest()
            return True
        self._asked = process.next_offset
        at_once = len(reply.body) >= AT_ONCE_BYTES
        if not puller.begin_again(steady, self._asked, process.committable, at_once=at_once):
            steady.rest()
        return True

    def _answered(self) -> None:
        """Note that the broker answers, and what it says can be read."""
        if self._failures:
            self._failures = 0
            self._puller.recovered()

    def _take(self, result: PullResult) -> None:
        """Put what a pull brought into its queue, and hand it over."""
        process = self._process
        unreadable = list(result.unreadable)
        fetched = merged(result.messages, unreadable)
        process.put(fetched, result.next_offset, unreadable=len(unreadable))
        if result.messages or unreadable:
            counters = self._counters
            counters.pulls += 1
            counters.pulled += len(result.messages)
            counters.pull_s += self._now() - process.last_pull
            self._hand_over(result.messages, unreadable)

    def _hand_over(
        self, messages: list[ReceivedMessage], unreadable: list[ReceivedMessage]
    ) -> None:
        process = self._process
        try:
            if messages:
                self._receiver.deliver(process, messages)
            if unreadable:
                self._receiver.deliver_unreadable(process, unreadable)
        except BaseException:  # nobody has them: all that is not done has to be pulled again
            process.correct(process.committable)
            raise

    def _delay_ms(self, error: AerobeeError) -> int:
        refused = error.code if isinstance(error, BrokerRefused) else None
        if refused == ResponseCode.FLOW_CONTROL:
            return self._settings.broker_busy_delay_ms
        if not self._process.dropped:
            self._puller.failed(error)
        self._failures += 1
        doubled_ms = self._settings.error_delay_min_ms << min(self._failures - 1, 16)
        return min(doubled_ms, self._settings.error_delay_ms)

    async def _correct(self, result: PullResult) -> None:
        log.warning(
            "pull offset not there queue=%s offset=%d reply=%s",
            self._queue,
            self._process.next_offset,
            result,
        )
        await self._receiver.correct(self._queue, result.next_offset)
