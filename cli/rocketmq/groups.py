"""mqadmin's commands of consumer groups."""

from argparse import Namespace
from typing import Final

import msgspec

from aerobee.admin.client import AdminClient
from aerobee.cli.rocketmq.given import (
    BROKER,
    CLUSTER,
    EITHER,
    AdminCommand,
    Letter,
    chosen,
    is_true,
)
from aerobee.cli.rocketmq.texts import at_least, columns, moment
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import (
    ConsumerConnection,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    decode_body,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import VERSION, VERSION_NAME
from aerobee.remoting.headers.groups import DeleteGroupRequest
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

GROUP: Final = Letter("g", "groupName", required=True)
WANTED: Final = "%-20s %s"
PROGRESS: Final = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s"
FIELDS: Final = {
    "consumeEnable": "consume_enable",
    "consumeFromMinEnable": "consume_from_min_enable",
    "consumeBroadcastEnable": "consume_broadcast_enable",
    "consumeMessageOrderly": "consume_message_orderly",
    "notifyConsumerIdsChanged": "notify_consumer_ids_changed_enable",
    "retryQueueNums": "retry_queue_nums",
    "retryMaxTimes": "retry_max_times",
    "brokerId": "broker_id",
    "whichBrokerWhenConsumeSlowly": "which_broker_when_consume_slowly",
}
NUMBERS: Final = frozenset(list(FIELDS)[5:])


async def update(admin: AdminClient, given: Namespace) -> None:
    """Make a group, or give it these settings: updateSubGroup."""
    config = SubscriptionGroupConfig(
        group_name=given.groupName, consume_broadcast_enable=False, consume_from_min_enable=False
    )
    for option, field in FIELDS.items():
        text = getattr(given, option)
        if text is not None:
            value = int(text) if option in NUMBERS else is_true(text)
            config = msgspec.structs.replace(config, **{field: value})
    if given.groupRetryPolicy is not None:
        policy = decode_body(GroupRetryPolicy, given.groupRetryPolicy.encode())
        config = msgspec.structs.replace(config, group_retry_policy=policy)
    for broker in await chosen(admin, given):
        await admin.group.put(broker.address, config)
        print(f"create subscription group to {broker.address} success.")
    print(config)


async def delete(admin: AdminClient, given: Namespace) -> None:
    """Delete a group; with `-c` its retries and dead letters, too: deleteSubGroup."""
    group = given.groupName
    header = DeleteGroupRequest(group_name=group, clean_offset=is_true(given.removeOffset))
    for broker in await chosen(admin, given):
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        await admin.connections.request(broker.address, code, header)
        place = f"from broker [{broker.address}]"
        if not given.brokerAddr:
            place += f" in cluster [{given.clusterName}]"
        print(f"delete subscription group [{group}] {place} success.")
    if not given.brokerAddr:
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            await admin.topic.delete(prefix + group, cluster=given.clusterName)


async def progress(admin: AdminClient, given: Namespace) -> None:
    """Show how far a group is: consumerProgress."""
    if await admin.route(RETRY_PREFIX + given.groupName) is None:
        raise InvalidUse(f"no broker has a group {given.groupName}")
    masters = await admin.masters_of(given.cluster)
    found = (await admin.group.progress(given.groupName, masters, given.topicName)).or_raise()
    rows = {place: row for stats in found.values() for place, row in stats.offset_table.items()}
    columns(
        PROGRESS,
        "#Topic",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        "#Diff",
        "#Inflight",
        "#LastTime",
    )
    behind = in_flight = 0
    for place, row in sorted(rows.items()):
        diff = row.broker_offset - row.consumer_offset
        inflight = row.pull_offset - row.consumer_offset
        behind, in_flight = behind + diff, in_flight + inflight
        last = moment(row.last_timestamp) if row.last_timestamp else "N/A"
        columns(
            PROGRESS,
            at_least(place.topic, 64),
            at_least(place.broker_name, 32),
            place.queue_id,
            row.broker_offset,
            row.consumer_offset,
            diff,
            inflight,
            f" {last}",
        )
    tps = sum(stats.consume_tps for stats in found.values())
    print(f"\nConsume TPS: {tps:.2f}")
    print(f"Consume Diff Total: {behind}")
    print(f"Consume Inflight Total: {in_flight}")


async def connections(admin: AdminClient, given: Namespace) -> None:
    """List who of a group is connected, and what it wants: consumerConnection."""
    masters = await admin.masters_of()
    if given.brokerAddr:
        masters = [each for each in masters if each.address == given.brokerAddr]
    found = (await admin.group.connections(given.consumerGroup, masters)).or_raise()
    online: ConsumerConnection | None = next((each for each in found.values() if each), None)
    if online is None:
        raise InvalidUse(f"Not found the consumer group connection: {given.consumerGroup}")
    row = "%-36s %-22s %-10s %s"
    columns(row, "#ClientId", "#ClientAddr", "#Language", "#Version")
    for each in online.connection_set:
        version = VERSION_NAME if each.version == VERSION else each.version
        columns(row, each.client_id, each.client_addr, each.language, version)
    print("\nBelow is subscription:")
    columns(WANTED, "#Topic", "#SubExpression")
    for wanted in online.subscription_table.values():
        columns(WANTED, wanted.topic, wanted.sub_string)
    print(f"\nConsumeType: {online.consume_type}")
    print(f"MessageModel: {online.message_model}")
    print(f"ConsumeFromWhere: {online.consume_from_where}")


COMMANDS: Final = {
    "updateSubGroup": AdminCommand(
        update,
        (
            GROUP, BROKER, CLUSTER, Letter("s", "consumeEnable"),
            Letter("m", "consumeFromMinEnable"), Letter("d", "consumeBroadcastEnable"),
            Letter("o", "consumeMessageOrderly"), Letter("q", "retryQueueNums"),
            Letter("r", "retryMaxTimes"), Letter("p", "groupRetryPolicy"), Letter("i", "brokerId"),
            Letter("w", "whichBrokerWhenConsumeSlowly"), Letter("a", "notifyConsumerIdsChanged"),
        ),
        EITHER,
    ),
    "deleteSubGroup": AdminCommand(
        delete, (GROUP, BROKER, CLUSTER, Letter("r", "removeOffset")), EITHER
    ),
    "consumerProgress": AdminCommand(
        progress, (GROUP, Letter("t", "topicName"), Letter("c", "cluster"))
    ),
    "consumerConnection": AdminCommand(
        connections, (Letter("g", "consumerGroup", required=True), BROKER)
    ),
}  # fmt: skip
