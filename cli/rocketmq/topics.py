"""mqadmin's commands of topics."""

from argparse import Namespace
from typing import Final

import msgspec

from aerobee.admin.client import AdminClient
from aerobee.admin.topics import TopicSettings
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
from aerobee.remoting.bodies import TopicConfig, encode_body
from aerobee.remoting.codes import Perm, TopicSysFlag

TOPIC: Final = Letter("t", "topic", required=True)
LIST_FORMAT: Final = "%-45s %-32s %-50s %-10s %-11s %-5s"


async def update(admin: AdminClient, given: Namespace) -> None:
    """Make a topic, or change it: updateTopic."""
    edits = [edit for edit in (given.attributes or "").split(",") if edit]
    attributes: dict[str, str | None] = {}
    for edit in edits:
        name, sign, value = edit[1:].partition("=")
        if edit[0] not in "+-" or (edit[0] == "+") != bool(sign):
            raise InvalidUse(f"{edit!r} is no edit of an attribute: +name=value or -name")
        attributes[name] = value if edit[0] == "+" else None
    config = TopicConfig(
        topic_name=given.topic,
        read_queue_nums=int(given.readQueueNums or 8),
        write_queue_nums=int(given.writeQueueNums or 8),
        perm=int(given.perm or 6),
        topic_sys_flag=TopicSysFlag.UNIT * is_true(given.unit)
        | TopicSysFlag.UNIT_SUB * is_true(given.hasUnitSub),
        order=is_true(given.order),
    )
    if config.order:
        raise InvalidUse("-o true is not done here: use mqadmin of RocketMQ, or updateOrderConf")
    for broker in await chosen(admin, given):
        before = TopicConfig(
            topic_name=given.topic,
            attributes={name: "" for name, value in attributes.items() if value is None},
        )
        wanted = TopicSettings(attributes=attributes).over(config)
        await admin.topic.put(broker.address, wanted, before)
        print(f"create topic to {broker.address} success.")
    print(shown(config, given.attributes))


async def update_perm(admin: AdminClient, given: Namespace) -> None:
    """Change who may read and write: updateTopicPerm."""
    perm = int(given.perm)
    for broker in await chosen(admin, given):
        changed = await admin.topic.alter(given.topic, TopicSettings(perm=perm), broker=broker.name)
        for before, after in changed.values():
            if before.perm == perm:
                print("new perm equals to the old one!")
                continue
            print(f"update topic perm from {before.perm} to {perm} in {broker.address} success.")
            if given.brokerAddr:
                print(f"{shown(after)}.")


async def delete(admin: AdminClient, given: Namespace) -> None:
    """Delete a topic with its messages: deleteTopic."""
    await admin.topic.delete(given.topic, cluster=given.clusterName)
    print(f"delete topic [{given.topic}] from cluster [{given.clusterName}] success.")
    print(f"delete topic [{given.topic}] from NameServer success.")


async def list_topics(admin: AdminClient, given: Namespace) -> None:
    """List all topics, one a line: topicList."""
    for topic in await admin.topics():
        print(topic)


async def route(admin: AdminClient, given: Namespace) -> None:
    """Show where a topic is: topicRoute."""
    found = await admin.route(given.topic)
    if found is None:
        raise InvalidUse(f"No topic route info in name server for the topic: {given.topic}")
    if not given.list:
        print(msgspec.json.format(encode_body(found), indent=2).decode())
        return
    queues = {each.broker_name: each for each in found.queue_datas}
    columns(
        LIST_FORMAT,
        "#ClusterName",
        "#BrokerName",
        "#BrokerAddrs",
        "#ReadQueue",
        "#WriteQueue",
        "#Perm",
    )
    reads = writes = 0
    for broker in sorted(found.broker_datas, key=lambda each: each.broker_name):
        queue = queues[broker.broker_name]
        reads, writes = reads + queue.read_queue_nums, writes + queue.write_queue_nums
        addresses = ", ".join(f"{key}={each}" for key, each in broker.broker_addrs.items())
        columns(
            LIST_FORMAT,
            broker.cluster,
            broker.broker_name,
            f"{{{addresses}}}",
            queue.read_queue_nums,
            queue.write_queue_nums,
            queue.perm,
        )
    print("-" * 158)
    columns(LIST_FORMAT, "Total:", len(queues), "", reads, writes, "")


async def status(admin: AdminClient, given: Namespace) -> None:
    """Show where the queues of a topic begin and end: topicStatus."""
    described = await admin.topic.describe(given.topic)
    for error in described.failed.values():
        raise error
    row = "%-32s  %-4s  %-20s  %-20s    %s"
    columns(row, "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    for queue in described.queues:
        newest = moment(queue.newest_ms, millis=True) if queue.newest_ms > 0 else ""
        columns(row, at_least(queue.broker, 32), queue.queue_id, queue.begin, queue.end, newest)
    print(f"\nTopic Put TPS: {described.puts_per_second}")


async def clusters(admin: AdminClient, given: Namespace) -> None:
    """List the clusters that have a topic: topicClusterList."""
    found = await admin.route(given.topic)
    for cluster in sorted({each.cluster for each in found.broker_datas} if found else ()):
        print(cluster)


def shown(config: TopicConfig, edits: str | None = None) -> str:
    """Write a topic as RocketMQ's TopicConfig writes itself."""
    perm = config.perm
    rights = f"{'R' if perm & Perm.READ else '-'}{'W' if perm & Perm.WRITE else '-'}"
    rights += "X" if perm & Perm.INHERIT else "-"
    pairs = [edit.partition("=") for edit in (edits or "").split(",") if edit]
    attributes = ", ".join(f"{name}={value if sign else ''}" for name, sign, value in pairs)
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums},"
        f" writeQueueNums={config.write_queue_nums}, perm={rights},"
        f" topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag},"
        f" order={str(config.order).lower()}, attributes={{{attributes}}}]"
    )


COMMANDS: Final = {
    "updateTopic": AdminCommand(
        update,
        (
            TOPIC, BROKER, CLUSTER, Letter("a", "attributes"), Letter("r", "readQueueNums"),
            Letter("w", "writeQueueNums"), Letter("p", "perm"), Letter("o", "order"),
            Letter("u", "unit"), Letter("s", "hasUnitSub"),
        ),
        EITHER,
    ),
    "updateTopicPerm": AdminCommand(
        update_perm, (TOPIC, BROKER, CLUSTER, Letter("p", "perm", required=True)), EITHER
    ),
    "deleteTopic": AdminCommand(delete, (TOPIC, Letter("c", "clusterName", required=True))),
    "topicList": AdminCommand(list_topics, ()),
    "topicRoute": AdminCommand(route, (TOPIC, Letter("l", "list", is_flag=True))),
    "topicStatus": AdminCommand(status, (TOPIC,)),
    "topicClusterList": AdminCommand(clusters, (TOPIC,)),
}  # fmt: skip
