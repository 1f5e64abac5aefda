"""What there is once of a broker: its store, its tables, its nameservers."""

from collections import Counter
from typing import Final

from aerobee.broker.measures.losses import lost_messages, lost_offsets, passed_over
from aerobee.broker.measures.values import Values
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.words import REPLY
from aerobee.storage.upkeep.statistics import StoreStatistics

DISK: Final = {"storage_type": "local", "storage_medium": "disk"}
PROCESSORS: Final = {
    "send": (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
    ),
    "async_put": (),
    "pull": (RequestCode.PULL_MESSAGE,),
    "ack": (),
    "query_message": (RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID),
    "client_manager": (RequestCode.UNREGISTER_CLIENT, RequestCode.CHECK_CLIENT_CONFIG),
    "heartbeat": (RequestCode.HEART_BEAT,),
    "lite_pull": (RequestCode.LITE_PULL_MESSAGE,),
    "transaction": (RequestCode.END_TRANSACTION,),
    "consumer_manager": (
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.QUERY_CONSUMER_OFFSET,
    ),
    "admin": (),  # all others
    REPLY: (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
}
"""RocketMQ's thread pools and what each serves: by them it tells how many requests wait."""
_PROCESSOR_OF: Final = {code: name for name, codes in PROCESSORS.items() for code in codes}


def is_writable(ctx: Context) -> bool:
    """Whether messages are taken, and what is acknowledged of tables is kept."""
    return ctx.store.commit_log.writable and not ctx.health.troubles.reasons()


def store(ctx: Context, values: Values) -> None:
    """Add what there is once."""
    statistics: StoreStatistics = ctx.store.statistics()
    add, settings = values.add, ctx.settings
    add("rocketmq_broker_permission", settings.broker_permission)
    add("rocketmq_topic_number", len(ctx.tables.topics))
    add("rocketmq_consumer_group_number", len(ctx.tables.groups))
    _waiting(ctx, values)
    add("rocketmq_storage_size_bytes", statistics.disk_used_bytes, **DISK)
    add("rocketmq_storage_flush_behind_bytes", statistics.unflushed_bytes, **DISK)
    add("rocketmq_storage_dispatch_behind_bytes", 0, **DISK)  # queues are written with the log
    earliest = statistics.earliest_store_timestamp
    age_ms = max(0, ctx.now_ms() - earliest) if earliest else 0
    add("rocketmq_storage_message_reserve_time_milliseconds", age_ms, **DISK)
    add("aerobee_log_bytes", statistics.position - statistics.log_begin)
    add("aerobee_log_retention_seconds", settings.file_reserved_time * 3600)
    add("aerobee_fsyncs_total", statistics.fsyncs)
    add("aerobee_log_space_lacks_total", statistics.space_lacks)
    add("aerobee_disk_used_ratio", statistics.disk_used_ratio)
    add("aerobee_log_files_removed_total", statistics.removed_log_files)
    add("aerobee_store_writable", int(is_writable(ctx)))
    damage = ctx.store.damage
    add("aerobee_store_damaged_bytes", sum(span.end - span.begin for span in damage))
    add("aerobee_store_damaged_spans", len(damage))
    add("aerobee_store_lost_messages", lost_messages(damage))
    add("aerobee_store_passed_over_messages", lost_offsets(passed_over(ctx)))


def _waiting(ctx: Context, values: Values) -> None:
    """Add how many requests wait, by who would serve them in RocketMQ."""
    waiting: Counter[str] = Counter(dict.fromkeys(PROCESSORS, 0))
    for code, count in ctx.health.requests.waiting.items():
        waiting[_PROCESSOR_OF.get(code, "admin")] += count
    waiting["pull"] += ctx.cold.reads.waiting
    for name, count in waiting.items():
        values.add("rocketmq_processor_watermark", count, processor=name)
