"""The table that `mqadmin brokerStatus` prints and `clusterList` reads: code 28.

Keys are those of AdminBrokerProcessor.prepareRuntimeInfo and StoreStatsService.getRuntimeInfo.
Tools parse many of them as numbers, so every key is there; where this broker has no such part
(thread pools, a dispatch buffer) the number is 0.
"""

import shutil
from typing import Final

from aerobee.broker.compiled.choice import description
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import KVTable, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import VERSION_NAME
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("runtime info")

POOLS: Final = ("send", "pull", "litePull", "query", "ack")


@routes.on(RequestCode.GET_BROKER_RUNTIME_INFO)
def get_runtime_info(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return the counters and states that `mqadmin brokerStatus` and `clusterList` print."""
    return Reply(body=encode_body(KVTable(table=runtime_info(ctx))))


def runtime_info(ctx: Context) -> dict[str, str]:
    """Return the broker's state as strings, under RocketMQ's keys."""
    return {**_times(ctx), **_messages(ctx), **_store(ctx), **_absent_parts(), **_features(ctx)}


def _times(ctx: Context) -> dict[str, str]:
    seconds = max(0, ctx.now_ms() - ctx.health.metrics.started_ms) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return {
        "brokerVersionDesc": VERSION_NAME,
        "brokerActive": "true",
        "bootTimestamp": str(ctx.health.metrics.started_ms),
        "runtime": (
            f"[ {days} days, {hours % 24} hours, {minutes % 60} minutes, {seconds % 60} seconds ]"
        ),
        "startAcceptSendRequestTimeStamp": str(ctx.settings.start_accept_send_request_time_stamp),
        "fastPathServedBy": description(wanted=ctx.settings.compiled_fast_path),  # ours
    }


def _messages(ctx: Context) -> dict[str, str]:
    metrics = ctx.health.metrics
    counts = metrics.counts(ctx.writing.queues.used())
    rates = metrics.rates(counts)
    total = [found + missed for found, missed in zip(rates["found"], rates["missed"], strict=True)]
    return {
        "msgPutTotalYesterdayMorning": str(metrics.yesterday.put),
        "msgPutTotalTodayMorning": str(metrics.today.put),
        "msgPutTotalTodayNow": str(counts.put),
        "msgGetTotalYesterdayMorning": str(metrics.yesterday.transferred),
        "msgGetTotalTodayMorning": str(metrics.today.transferred),
        "msgGetTotalTodayNow": str(counts.transferred),
        "putTps": _windows(rates["put"]),
        "getFoundTps": _windows(rates["found"]),
        "getMissTps": _windows(rates["missed"]),
        "getTotalTps": _windows(total),
        "getTransferredTps": _windows(rates["transferred"]),
        "putMessageTimesTotal": str(counts.put),
        "putMessageSizeTotal": str(counts.put_bytes),
        "putMessageAverageSize": str(counts.put_bytes / (counts.put or 1)),
    }


def _store(ctx: Context) -> dict[str, str]:
    statistics = ctx.store.statistics()
    ratio = str(statistics.disk_used_ratio)
    root = ctx.settings.store_path_root_dir
    disk = shutil.disk_usage(root)
    return {
        "commitLogMinOffset": str(statistics.log_begin),
        "commitLogMaxOffset": str(statistics.position),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{ctx.settings.store.log_dir}": ratio,
        "consumeQueueDiskRatio": str(ctx.store.files.disk_used_ratio(root)),
        "commitLogDirCapacity": f"Total : {_human(disk.total)}, Free : {_human(disk.free)}.",
        "earliestMessageTimeStamp": str(
            -1
            if statistics.earliest_store_timestamp is None
            else statistics.earliest_store_timestamp
        ),
        "remainHowManyDataToFlush": _human(statistics.unflushed_bytes),
        "remainHowManyDataToCommit": _human(0),
    }


def _features(ctx: Context) -> dict[str, str]:
    return {key: text for each in ctx.rooms for key, text in each.runtime_info().items()}


def _absent_parts() -> dict[str, str]:
    """Numbers of parts that this broker has not, or does not measure."""
    table = dict.fromkeys(
        (
            "dispatchBehindBytes",
            "dispatchMaxBuffer",
            "pageCacheLockTimeMills",
            "putMessageEntireTimeMax",
            "putMessageFailedTimes",
            "getMessageEntireTimeMax",
            "remainTransientStoreBufferNumbs",
            "timerReadBehind",
            "timerOffsetBehind",
            "timerCongestNum",
            "EndTransactionQueueSize",
            "EndTransactionThreadPoolQueueCapacity",
        ),
        "0",
    )
    table |= dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0.0")
    table |= dict.fromkeys(("putLatency99", "putLatency999"), "0.00")
    table["putMessageDistributeTime"] = "not measured"
    for pool in POOLS:
        for what in ("Size", "Capacity", "HeadWaitTimeMills"):
            table[f"{pool}ThreadPoolQueue{what}"] = "0"
    return table


def _windows(rates: list[float]) -> str:
    return " ".join(f"{rate:.6g}" if rate < 1e5 else f"{rate:.1f}" for rate in rates)


def _human(count: int) -> str:
    """Write bytes as MixAll.humanReadableByteCount does: 12 B, 1.5 KiB, 2.0 GiB."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 6)
    return f"{count / 1024**power:.1f} {'KMGTPE'[power - 1]}iB"
