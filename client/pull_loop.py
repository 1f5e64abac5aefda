"""Fetches one owned queue, again and again, for as long as it is owned."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aerobee.client.consume_statistics import TopicCounters
from aerobee.client.errors import BrokerRefused
from aerobee.client.flow_control import FlowControl
from aerobee.client.message import MessageQueue
from aerobee.client.process_queue import ProcessQueue
from aerobee.client.pulling import Puller, PullResult, PullStatus
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import PullSettings
from aerobee.client.subscriptions import Subscription
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError

log = logging.getLogger(__name__)


class PullLoop:
    """One queue's fetching (DefaultMQPushConsumerImpl.pullMessage).

    `deliver` gets the messages of each pull, which are in `process` already; `offset_illegal` gets
    the offset to go on from when the broker does not have what was asked for: this loop ends then.
    `hold_ms` tells how long the next pull has to wait; 0 lets it go. `counters` are counted up.
    """

    def __init__(
        self,
        queue: MessageQueue,
        process: ProcessQueue,
        puller: Puller,
        subscription: Subscription,
        settings: PullSettings,
        *,
        deliver: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        offset_illegal: Callable[[MessageQueue, int], Awaitable[None]],
        hold_ms: Callable[[], int],
        flow: FlowControl | None = None,
        counters: TopicCounters | None = None,
    ) -> None:
        self._queue = queue
        self._process = process
        self._puller = puller
        self._subscription = subscription
        self._settings = settings
        self._deliver = deliver
        self._offset_illegal = offset_illegal
        self._hold_ms = hold_ms
        self._flow = flow or FlowControl(queue, settings)
        self._counters = counters or TopicCounters()
        self._failures = 0  # in a row

    async def run(self) -> None:
        """Pull until the queue is dropped."""
        process, flow, counters = self._process, self._flow, self._counters
        now = asyncio.get_running_loop().time
        while not process.dropped:
            process.last_pull = now()
            if hold_ms := self._hold_ms():
                await asyncio.sleep(hold_ms / 1000)
                continue
            if (exceeded := flow.exceeded(process)) is not None:
                await flow.wait(process, exceeded)
                continue
            try:
                result = await self._puller.pull(
                    self._subscription, process.next_offset, process.committable
                )
            except AerobeeError as error:
                await asyncio.sleep(self._delay_ms(error) / 1000)
                continue
            self._failures = 0
            if process.dropped:
                return
            if result.status is PullStatus.OFFSET_ILLEGAL:
                await self._correct(result)
                return
            process.put(result.messages, result.next_offset)
            if result.messages:
                counters.pulls += 1
                counters.pulled += len(result.messages)
                counters.pull_s += now() - process.last_pull
                self._deliver(process, result.messages)

    def _delay_ms(self, error: AerobeeError) -> int:
        refused = error.code if isinstance(error, BrokerRefused) else None
        if refused == ResponseCode.FLOW_CONTROL:
            return self._settings.broker_busy_delay_ms
        if not self._process.dropped:
            log.warning("pull failed queue=%s error=%s", self._queue, error)
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
        await self._offset_illegal(self._queue, result.next_offset)
