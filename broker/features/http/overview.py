"""What the JSON addresses show, as plain dictionaries."""

from itertools import islice
from typing import Any

import msgspec

from aerobee.broker.features.http.degraded import (
    damage_shown,
    degraded,
    lost_shown,
    recovery_shown,
)
from aerobee.broker.measures.losses import passed_over
from aerobee.broker.measures.store import is_writable
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.subscription_mismatches import Differences, differences
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm
from aerobee.remoting.command import language_name
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.upkeep.statistics import StoreStatistics


def missing(ctx: Context) -> list[str]:
    """Say what keeps the broker from being of use; nothing when it is ready."""
    reasons = []
    if not ctx.cluster.registration.registered:
        reasons.append("not registered with any nameserver")
    statistics = ctx.store.statistics()
    if not statistics.writable:
        reasons.append(f"store not writable: {statistics.refusal}")
    return reasons + ctx.health.troubles.reasons()


def broker(ctx: Context) -> dict[str, Any]:
    """Describe the broker: who it is, how long it runs, what its store holds."""
    settings, statistics = ctx.settings, ctx.store.statistics()
    return {
        "name": settings.broker_name,
        "cluster": settings.broker_cluster_name,
        "id": settings.broker_id,
        "address": ctx.cluster.registration.address,
        "permission": settings.broker_permission,
        "startedMs": ctx.health.metrics.started_ms,
        "ready": not (reasons := missing(ctx)),
        "reasons": reasons,
        "degraded": degraded(ctx),
        "topics": len(ctx.tables.topics),
        "groups": len(ctx.tables.groups),
        "heldPulls": ctx.pulls.holds.count,
        "nameservers": [
            {"address": server.address, "registered": server.knows_us, "answers": server.answers}
            for server in ctx.cluster.registration.nameservers
        ],
        "store": {
            "path": str(settings.store_path_root_dir),
            **_statistics(statistics),
            "writable": is_writable(ctx),
        },
        "recovery": recovery_shown(ctx),
        "damage": damage_shown(ctx.store.damage),
        "damagedSpans": len(ctx.store.damage),
        "passedOver": lost_shown(passed_over(ctx)),
        **{name: value for room in ctx.rooms for name, value in room.shown().items()},
    }


def topics(ctx: Context, start: int, limit: int) -> list[dict[str, Any]]:
    """List the configurations of some topics, in the order they were made."""
    return [_topic(config) for config in islice(ctx.tables.topics, start, start + limit)]


def topic(ctx: Context, name: str) -> dict[str, Any] | None:
    """Describe one topic with the offsets of its queues; None for an unknown one."""
    config = ctx.tables.topics.get(name)
    if config is None:
        return None
    queues = []
    for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
        queue = ctx.store.find_queue(name, queue_id)
        queues.append({"queueId": queue_id, **_offsets(queue)})
    consumers = sorted(
        {*ctx.tables.offsets.groups_of(name), *ctx.consumers.members.groups_of_topic(name)}
    )
    return {**_topic(config), "queues": queues, "groups": consumers}


def groups(ctx: Context, start: int, limit: int) -> list[dict[str, Any]]:
    """List some groups with the number of their members, in the order they were made."""
    return [
        {
            "name": config.group_name,
            "consumeEnable": config.consume_enable,
            "members": len(ctx.consumers.members.client_ids(config.group_name)),
            "subscriptionsDiffer": config.group_name in ctx.consumers.members.mismatches,
        }
        for config in islice(ctx.tables.groups, start, start + limit)
    ]


def group(ctx: Context, name: str) -> dict[str, Any] | None:
    """Describe one group: configuration, members, subscriptions, lag by topic and queue."""
    config = ctx.tables.groups.get(name)
    if config is None:
        return None
    online = ctx.consumers.members.group(name)
    described: dict[str, Any] = {
        "name": name,
        "config": msgspec.to_builtins(config),
        "members": [],
        "subscriptions": {},
        "differences": _differences(ctx, name),
        "topics": [
            group_topic(ctx, name, topic) for topic in sorted(ctx.tables.offsets.topics_of(name))
        ],
    }
    if online is not None:
        described["messageModel"] = online.message_model
        described["consumeType"] = online.consume_type
        described["members"] = [
            {
                "clientId": member.client.client_id,
                "address": connection.remote,
                "language": language_name(member.client.language),
                "version": member.client.version,
                "heardMs": ctx.now_ms() - ctx.consumers.members.silent_ms(member),
            }
            for connection, member in online.members.items()
        ]
        described["subscriptions"] = {
            topic: {
                "expression": subscription.sub_string,
                "type": subscription.expression_type,
                "version": subscription.sub_version,
            }
            for topic, subscription in online.subscriptions.items()
        }
    return described


def group_topic(ctx: Context, group: str, topic: str) -> dict[str, Any]:
    """Tell how far one group is behind in one topic: messages stored and not yet consumed."""
    queues = []
    for queue_id, committed in sorted(ctx.tables.offsets.of_group(group, topic).items()):
        queue = ctx.store.find_queue(topic, queue_id)
        max_offset = 0 if queue is None else queue.max_offset
        owner = ctx.consumers.handovers.owner(GroupQueue(group, topic, queue_id))
        queues.append(
            {
                "queueId": queue_id,
                "committed": committed,
                "maxOffset": max_offset,
                "lag": max(0, max_offset - committed),
                "owner": owner.client_id if owner is not None else None,
            }
        )
    return {"topic": topic, "lag": sum(queue["lag"] for queue in queues), "queues": queues}


def _differences(ctx: Context, name: str) -> Differences:
    """Return the topics on which a group's members differ, with who wants what."""
    online = ctx.consumers.members.group(name)
    return differences(online) if online is not None else {}


def _topic(config: TopicConfig) -> dict[str, Any]:
    perm = config.perm
    return {
        "name": config.topic_name,
        "readQueues": config.read_queue_nums,
        "writeQueues": config.write_queue_nums,
        "perm": perm,
        "readable": bool(perm & Perm.READ),
        "writable": bool(perm & Perm.WRITE),
        "order": config.order,
        "attributes": config.attributes,
    }


def _offsets(queue: ConsumeQueue | None) -> dict[str, int]:
    if queue is None:
        return {"minOffset": 0, "maxOffset": 0}
    return {"minOffset": queue.min_offset, "maxOffset": queue.max_offset}


def _statistics(statistics: StoreStatistics) -> dict[str, Any]:
    return {
        "position": statistics.position,
        "flushedPosition": statistics.flushed_position,
        "logBegin": statistics.log_begin,
        "logFiles": statistics.log_files,
        "queues": statistics.queues,
        "fsyncs": statistics.fsyncs,
        "diskUsedRatio": statistics.disk_used_ratio,
        "logFilesRemoved": statistics.removed_log_files,
        "writable": statistics.writable,
        "refusal": statistics.refusal,
        "earliestStoreTimestamp": statistics.earliest_store_timestamp,
    }
