"""What a broker logs of its start and its stop, so that a log alone says what it was doing."""

import logging
import time

from aerobee.broker.rules.attributes import dedup_window_ms, is_compacted
from aerobee.broker.start.context import Context
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.server_log import tell_openness
from aerobee.remoting.words import (
    HALF_TOPIC,
    LIGHT_QUEUE_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_GROUP_PREFIX,
    TIMER_TOPIC,
)
from aerobee.storage.layout import ABORT

log = logging.getLogger(__name__)


def serves(ctx: Context, port: int) -> None:
    """Say where the broker listens, whom it registers with, and what its store holds."""
    settings, statistics = ctx.settings, ctx.store.statistics()
    log.info(
        "broker_serves name=%s cluster=%s address=%s listens=%s nameservers=%s store=%s"
        " log_begin=%d log_end=%d proof=%r topics=%d groups=%d",
        settings.broker_name,
        settings.broker_cluster_name,
        ctx.cluster.registration.address,
        format_address(settings.bind_address or "0.0.0.0", port),
        ";".join(settings.nameservers) or "none",
        settings.store_path_root_dir,
        statistics.log_begin,
        statistics.position,
        ctx.store.recovered.proof,
        len(ctx.tables.topics),
        len(ctx.tables.groups),
    )
    tell_openness(log, "broker", settings, port)
    if statistics.refusal is not None:
        log.warning("broker_takes_no_messages reason=%s", statistics.refusal)
    if not settings.delays_messages and ctx.store.topics().get(SCHEDULE_TOPIC):
        log.warning(
            "delayed_messages_stay: messageDelayLevel is empty, and messages may wait in the store"
        )
    half = ctx.store.find_queue(HALF_TOPIC, 0)
    if not settings.transaction_enable and half is not None and half.max_offset:
        done = ctx.tables.offsets.committed(f"{SYSTEM_GROUP_PREFIX}TRANS", HALF_TOPIC, 0) or 0
        log.warning(
            "half_messages_stay: transactionEnable is false, and of the %d half messages in the"
            " store from=%d to=%d some may wait for their producers",
            max(0, half.max_offset - done), done, half.max_offset,
        )  # fmt: skip
    if not settings.stores_retries_once:
        asking = [each.topic_name for each in ctx.tables.topics if dedup_window_ms(each.attributes)]
        if asking:
            log.warning(
                "retries_stored_twice: dedupEntriesMax is 0, and %d topics ask for it, such as %s",
                len(asking), asking[0],
            )  # fmt: skip
    light = any(name.startswith(LIGHT_QUEUE_PREFIX) for name, _ in ctx.store.queues.light_names)
    if not settings.light_queues and (light or settings.enable_lmq):
        log.warning(
            "light_queues_rest: nothing is put in them, and nobody can pull them, unless enableLmq"
            " and enableMultiDispatch are both true"
        )
    for warning in settings.retention_warnings(timers=settings.timer_wheel_enable):
        log.warning("retention_is_short: %s", warning)
    if not settings.enable_compaction:
        waiting = sum(is_compacted(each) for each in ctx.tables.topics)
        if waiting:
            log.warning(
                "compaction_off topics=%d: enableCompaction is false, so they are read as others"
                " are, and their messages go with the log",
                waiting,
            )
    if not settings.timer_wheel_enable and (queue := ctx.store.find_queue(TIMER_TOPIC, 0)):
        log.warning(
            "timer_messages_stay: timerWheelEnable is false, and of %d messages some may wait",
            queue.max_offset - queue.min_offset,
        )
    if not settings.nameservers:
        log.warning("broker_without_nameserver: clients find it through namesrvAddr alone")


def stops(ctx: Context) -> float:
    """Say that a stop has begun and what is to be done; return when, for `stopped`."""
    statistics = ctx.store.statistics()
    log.info("broker_stops unflushed_bytes=%d", statistics.unflushed_bytes)
    return time.monotonic()


def stopped(ctx: Context, began_s: float, unsaved: OSError | None) -> None:
    """Say how a stop has ended: what is on the disk, and whether a start will have to recover."""
    statistics, root = ctx.store.statistics(), ctx.settings.store_path_root_dir
    clean = not (root / ABORT).exists()
    log.log(
        logging.INFO if clean and unsaved is None else logging.ERROR,
        "broker_stopped seconds=%.2f log_end=%d flushed=%d clean=%s unsaved=%s",
        time.monotonic() - began_s,
        statistics.position,
        statistics.flushed_position,
        str(clean).lower(),
        unsaved or "nothing",
    )
