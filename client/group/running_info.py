"""What a consumer tells of itself to who asks through a broker."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from aerobee.client.group.locks import LockKeeper
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import ConsumeStatistics
from aerobee.client.pulls.subscriptions import Subscription
from aerobee.remoting import bodies
from aerobee.remoting.bodies import ConsumerRunningInfo, ProcessQueueInfo
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.command import VERSION_NAME

MIB: Final = 1024 * 1024


def identity(group: str, consume_type: str, message_model: str, started_ms: int) -> dict[str, str]:
    """Return the properties by which an operator tells consumers of all kinds apart."""
    return {
        "PROP_CONSUME_TYPE": consume_type,
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CLIENT_VERSION": VERSION_NAME,
        "consumerGroup": group,
        "messageModel": message_model,
    }


def describe(
    queues: Mapping[MessageQueue, ProcessQueue],
    subscriptions: Iterable[Subscription],
    statistics: ConsumeStatistics,
    lock_keeper: LockKeeper | None,
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
            bodies.QueueBody(*queue): describe_queue(queue, process, lock_keeper)
            for queue, process in queues.items()
        },
        status_table={each.topic: statistics.status(each.topic) for each in wanted},
    )


def describe_queue(
    queue: MessageQueue, process: ProcessQueue, lock_keeper: LockKeeper | None
) -> ProcessQueueInfo:
    """Describe one owned queue (ProcessQueue.fillProcessQueueInfo); times in ms since 1970."""
    state = process.statistics()
    locked_since = lock_keeper.since(queue) if lock_keeper is not None else None
    return ProcessQueueInfo(
        commit_offset=process.committable,
        cached_msg_min_offset=state.oldest_offset or 0,
        cached_msg_max_offset=state.newest_offset or 0,
        cached_msg_count=state.messages,
        cached_msg_size_in_mi_b=state.bytes // MIB,
        locked=lock_keeper is not None and lock_keeper.trusted(queue),
        last_lock_timestamp=_wall_ms(locked_since) if locked_since is not None else 0,
        droped=state.dropped,
        last_pull_timestamp=_wall_ms(process.last_pull),
        last_consume_timestamp=_wall_ms(process.last_handled),
    )


def _wall_ms(loop_time_s: float) -> int:
    """Turn a time of the event loop's clock into milliseconds since 1970."""
    ago_s = asyncio.get_running_loop().time() - loop_time_s
    return wall_clock_ms() - int(ago_s * 1000)
