"""What a store holds for features that are switched off, and what settings have others lose."""

from collections.abc import Iterator
from pathlib import Path

from aerobee.broker.rules.attributes import RETENTION_SECONDS, dedup_window_ms, is_compacted
from aerobee.broker.rules.own_groups import TRANSACTION_GROUP
from aerobee.broker.start.context import Context
from aerobee.remoting.words import (
    HALF_TOPIC,
    LIGHT_QUEUE_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from aerobee.storage.layout import INDEX


def what_waits(ctx: Context) -> Iterator[str]:
    """Yield a warning for each: which setting is the cause, and how much waits."""
    settings = ctx.settings
    if not settings.delays_messages and (levels := ctx.store.topics().get(SCHEDULE_TOPIC)):
        kept = sum(_kept(ctx, SCHEDULE_TOPIC, queue_id) for queue_id in levels)
        yield (
            f"delayed_messages_stay: messageDelayLevel is empty, and of {kept} messages some may"
            " wait"
        )
    if not settings.transaction_enable:
        yield from _half_messages(ctx)
    if not settings.timer_wheel_enable and ctx.store.find_queue(TIMER_TOPIC, 0):
        yield (
            "timer_messages_stay: timerWheelEnable is false, and of"
            f" {_kept(ctx, TIMER_TOPIC, 0)} messages some may wait"
        )
    if not settings.stores_retries_once:
        asking = [each.topic_name for each in ctx.tables.topics if dedup_window_ms(each.attributes)]
        if asking:
            yield (
                f"retries_stored_twice: dedupEntriesMax is 0, and {len(asking)} topics ask for it,"
                f" such as {asking[0]}"
            )
    if not settings.enable_compaction:
        compacted = sum(is_compacted(each) for each in ctx.tables.topics)
        if compacted:
            yield (
                f"compaction_off topics={compacted}: enableCompaction is false, so they are read as"
                " others are, and their messages go with the log"
            )
    light = sum(name.startswith(LIGHT_QUEUE_PREFIX) for name, _ in ctx.store.queues.light_names)
    if not settings.light_queues and (light or settings.enable_lmq):
        yield (
            f"light_queues_rest: nothing is put in the {light} that there are, and nobody can pull"
            " them, unless enableLmq and enableMultiDispatch are both true"
        )
    if not settings.message_index_enable and (files := _files_in(settings.store.root / INDEX)):
        yield (
            f"keys_not_indexed: messageIndexEnable is false, {files} files of the index stay as"
            " they are, and nobody finds messages by their keys"
        )
    if not settings.topic_retention_enable:
        wishing = [
            each for each in ctx.tables.topics if RETENTION_SECONDS in (each.attributes or {})
        ]
        if wishing:
            yield (
                f"topic_retention_rests: topicRetentionEnable is false, and {len(wishing)} topics"
                f" ask for it, such as {wishing[0].topic_name}: what has gone stays so, and nothing"
                " more goes before its log file"
            )
    if not settings.controls_access and (settings.config_dir / "users.json").exists():
        yield (
            "access_control_off: authenticationEnabled is false, and config/users.json has users:"
            " nobody is asked who he is, whatever was kept from whom"
        )
    for warning in settings.retention_warnings(timers=settings.timer_wheel_enable):
        yield f"retention_is_short: {warning}"


def _kept(ctx: Context, topic: str, queue_id: int) -> int:
    queue = ctx.store.find_queue(topic, queue_id)
    return 0 if queue is None else queue.max_offset - queue.min_offset


def _files_in(folder: Path) -> int:
    try:
        return len(list(folder.iterdir()))
    except OSError:
        return 0


def _half_messages(ctx: Context) -> Iterator[str]:
    half = ctx.store.find_queue(HALF_TOPIC, 0)
    if half is not None and half.max_offset:
        done = ctx.tables.offsets.committed(TRANSACTION_GROUP, HALF_TOPIC, 0) or 0
        yield (
            "half_messages_stay: transactionEnable is false, and of the"
            f" {max(0, half.max_offset - done)} half messages in the store from={done}"
            f" to={half.max_offset} some may wait for their producers"
        )
