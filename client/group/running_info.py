"""What a push consumer tells of itself to who asks through a broker, and does on demand."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from aerobee.client.group.locks import LockKeeper
from aerobee.client.handlers import Handler, failure
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import ConsumeStatistics
from aerobee.client.received import ReceivedMessage
from aerobee.client.subscriptions import Subscription
from aerobee.remoting import bodies
from aerobee.remoting.bodies import ConsumeDirectlyResult, ConsumerRunningInfo, ProcessQueueInfo
from aerobee.remoting.clocks import wall_clock_ms

log = logging.getLogger(__name__)

MIB: Final = 1024 * 1024


async def handle_directly(
    handler: Handler | None, message: ReceivedMessage, *, ordered: bool
) -> ConsumeDirectlyResult:
    """Give one message to its handler now, whoever owns its queue; nothing else follows from it.

    (ConsumeMessageService.consumeMessageDirectly)
    """
    began = time.monotonic()
    remark = None
    if handler is None:
        outcome, remark = "CR_THROW_EXCEPTION", f"topic {message.topic!r} is not subscribed here"
    else:
        try:
            answer = await handler.call(message if handler.batch is None else [message])
            outcome = "CR_SUCCESS" if failure(answer) is None else "CR_LATER"
        except Exception as error:
            outcome, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
            log.exception("handler failed message_id=%s, handled on demand", message.message_id)
    return ConsumeDirectlyResult(
        order=ordered,
        auto_commit=True,
        consume_result=outcome,
        remark=remark,
        spent_time_mills=int((time.monotonic() - began) * 1000),
    )


def describe(
    queues: Mapping[MessageQueue, ProcessQueue],
    subscriptions: Iterable[Subscription],
    statistics: ConsumeStatistics,
    locks: LockKeeper | None,
    properties: Mapping[str, str],
) -> ConsumerRunningInfo:
    """Describe a consumer that runs: its queues, rates and subscriptions.

    (DefaultMQPushConsumerImpl.consumerRunningInfo)
    """
    wanted = list(subscriptions)
    return ConsumerRunningInfo(
        properties=dict(properties),
        subscription_set=[each.body() for each in wanted],
        mq_table={
            bodies.MessageQueue(*queue): describe_queue(queue, process, locks)
            for queue, process in queues.items()
        },
        status_table={each.topic: statistics.status(each.topic) for each in wanted},
    )


def describe_queue(
    queue: MessageQueue, process: ProcessQueue, locks: LockKeeper | None
) -> ProcessQueueInfo:
    """Describe one owned queue (ProcessQueue.fillProcessQueueInfo); times in ms since 1970."""
    state = process.statistics()
    locked_since = locks.since(queue) if locks is not None else None
    return ProcessQueueInfo(
        commit_offset=process.committable,
        cached_msg_min_offset=state.oldest_offset or 0,
        cached_msg_max_offset=state.newest_offset or 0,
        cached_msg_count=state.messages,
        cached_msg_size_in_mi_b=state.bytes // MIB,
        locked=locks is not None and locks.trusted(queue),
        last_lock_timestamp=_wall_ms(locked_since) if locked_since is not None else 0,
        droped=state.dropped,
        last_pull_timestamp=_wall_ms(process.last_pull),
        last_consume_timestamp=_wall_ms(process.last_handled),
    )


def _wall_ms(loop_time_s: float) -> int:
    """Turn a time of the event loop's clock into milliseconds since 1970."""
    ago_s = asyncio.get_running_loop().time() - loop_time_s
    return wall_clock_ms() - int(ago_s * 1000)
