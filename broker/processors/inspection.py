"""What administration tools read: 21, 201-204, 208, 300, 305, 328, 343 (AdminBrokerProcessor)."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from aerobee.broker.members.group import Member
from aerobee.broker.rules.system_topics import system_topic_names
from aerobee.broker.start.context import Context
from aerobee.broker.start.group_progress import progress_of, queue_body
from aerobee.remoting.bodies import (
    ClientConnection,
    ConsumerConnection,
    ConsumeStats,
    DataVersion,
    GroupList,
    OffsetWrapper,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    QueueBody,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import language_name
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.groups import (
    AllGroupConfigReply,
    AllGroupConfigRequest,
    ConsumeByWhoRequest,
    ConsumerConnectionRequest,
    ConsumeStatsRequest,
    ProducerConnectionRequest,
    TopicsByConsumerRequest,
)
from aerobee.remoting.headers.topics import (
    AllTopicConfigReply,
    AllTopicConfigRequest,
    TopicRequest,
)
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.storage.queues.consume_queue import ConsumeQueue

routes: Routes[Context] = Routes("inspection")

PAGE_MAX: Final = 2000  # splitMetadataSize

T = TypeVar("T")


@routes.on(RequestCode.GET_ALL_TOPIC_CONFIG, AllTopicConfigRequest)
def all_topic_config(ctx: Context, request: Request[AllTopicConfigRequest]) -> Outcome:
    """Return all topics, or the page that is asked for."""
    header, table = request.header, {topic.topic_name: topic for topic in ctx.tables.topics}
    paged = _page(
        table,
        header.topic_seq,
        header.max_topic_num,
        header.data_version,
        ctx.tables.topics.data_version,
    )
    body = TopicConfigSerializeWrapper(
        topic_config_table=paged,
        data_version=ctx.tables.topics.data_version,
        mapping_data_version=DataVersion(),
    )
    return Reply(AllTopicConfigReply(total_topic_num=len(table)), body=msgspec.json.encode(body))


@routes.on(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, AllGroupConfigRequest)
def all_group_config(ctx: Context, request: Request[AllGroupConfigRequest]) -> Outcome:
    """Return all groups, or the page that is asked for."""
    header, table = request.header, {group.group_name: group for group in ctx.tables.groups}
    paged = _page(
        table,
        header.group_seq,
        header.max_group_num,
        header.data_version,
        ctx.tables.groups.data_version,
    )
    forbidden = ctx.tables.groups.forbidden()
    forbidden = {name: bits for name, bits in forbidden.items() if name in paged}
    body = ctx.tables.groups.encode_some(paged, forbidden)
    return Reply(AllGroupConfigReply(total_group_num=len(table)), body=body)


@routes.on(RequestCode.GET_TOPIC_STATS_INFO, TopicRequest)
async def topic_stats(ctx: Context, request: Request[TopicRequest]) -> Outcome:
    """Return where each queue of a topic begins and ends, and what comes per second."""
    topic = request.header.topic
    config = ctx.tables.topics.get(topic)
    if config is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    count = max(config.read_queue_nums, config.write_queue_nums)
    queues = [ctx.store.find_queue(topic, queue_id) for queue_id in range(count)]
    newest = [(queue, -1 if queue is None else queue.max_offset - 1) for queue in queues]
    times = await ctx.cold.lookups.store_times(newest)
    table = {}
    for queue_id, (queue, newest_ms) in enumerate(zip(queues, times, strict=True)):
        offset = TopicOffset()
        if queue is not None:
            offset = TopicOffset(
                min_offset=queue.min_offset,
                max_offset=queue.max_offset,
                last_update_timestamp=max(newest_ms, 0),
            )
        table[queue_body(ctx, topic, queue_id)] = offset
    body = TopicStatsTable(
        offset_table=table, topic_put_tps=ctx.health.metrics.sent_to.per_second(topic)
    )
    return Reply(body=encode_body(body, strict=False))


@routes.on(RequestCode.GET_CONSUME_STATS, ConsumeStatsRequest)
async def consume_stats(ctx: Context, request: Request[ConsumeStatsRequest]) -> Outcome:
    """Return how far a group is in each queue of its topics, and what it pulls per second."""
    group, tps = request.header.consumer_group, 0.0
    table: dict[QueueBody, OffsetWrapper] = {}
    last: list[tuple[ConsumeQueue | None, int]] = []  # what the group consumed last of each queue
    for topic in _topics_of(ctx, request.header):
        config = ctx.tables.topics.get(topic)
        if config is not None:
            tps += ctx.health.metrics.pulled_by.per_second((topic, group))
        for queue_id in range(config.read_queue_nums if config is not None else 0):
            queue, progress = progress_of(ctx, group, topic, queue_id)
            last.append((queue, progress.consumer_offset - 1))
            table[queue_body(ctx, topic, queue_id)] = progress
    times = await ctx.cold.lookups.store_times(last)
    for (place, wrapper), last_ms in zip(list(table.items()), times, strict=True):
        table[place] = msgspec.structs.replace(wrapper, last_timestamp=max(last_ms, 0))
    body = ConsumeStats(offset_table=table, consume_tps=tps)
    return Reply(body=encode_body(body, strict=False))


@routes.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerConnectionRequest)
def consumer_connections(ctx: Context, request: Request[ConsumerConnectionRequest]) -> Outcome:
    """Return the connected members of a group and what they subscribed to."""
    name = request.header.consumer_group
    group = ctx.consumers.members.group(name)
    if group is None:
        raise RequestError(
            ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
        )
    body = ConsumerConnection(
        connection_set=[_connection(member) for member in group.members.values()],
        subscription_table=group.subscriptions,
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )
    return Reply(body=encode_body(body))


@routes.on(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerConnectionRequest)
def producer_connections(ctx: Context, request: Request[ProducerConnectionRequest]) -> Outcome:
    """Return the connected members of a producer group."""
    name = request.header.producer_group
    members = ctx.consumers.members.producers().get(name)
    if not members:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    connections = [_connection(member) for member in members]
    return Reply(body=encode_body(ProducerConnection(connection_set=connections)))


@routes.on(RequestCode.GET_ALL_PRODUCER_INFO)
def all_producers(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return every connected producer by group."""
    table = {
        group: [
            ProducerInfo(
                client_id=member.client.client_id,
                remote_ip=f"/{member.client.connection.remote}",  # as Java writes an address
                language=language_name(member.client.language),
                version=member.client.version,
                last_update_timestamp=ctx.now_ms() - ctx.consumers.members.silent_ms(member),
            )
            for member in members
        ]
        for group, members in ctx.consumers.members.producers().items()
    }
    return Reply(body=encode_body(ProducerTableInfo(data=table)))


@routes.on(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ConsumeByWhoRequest)
def consumed_by(ctx: Context, request: Request[ConsumeByWhoRequest]) -> Outcome:
    """Return the groups that consume a topic, connected or not."""
    topic = request.header.topic
    groups = {*ctx.consumers.members.groups_of_topic(topic), *ctx.tables.offsets.groups_of(topic)}
    return Reply(body=encode_body(GroupList(group_list=sorted(groups))))


@routes.on(RequestCode.QUERY_TOPICS_BY_CONSUMER, TopicsByConsumerRequest)
def topics_by_consumer(ctx: Context, request: Request[TopicsByConsumerRequest]) -> Outcome:
    """Return the topics in which a group has committed."""
    topics = ctx.tables.offsets.topics_of(request.header.group)
    host, port = ctx.front.host
    body = TopicList(topic_list=sorted(topics), broker_addr=f"{host}:{port}")
    return Reply(body=encode_body(body))


@routes.on(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
def system_topic_list(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return the names of topics that are not for clients."""
    return Reply(body=encode_body(TopicList(topic_list=sorted(system_topic_names(ctx.settings)))))


def _page(
    table: Mapping[str, T],
    start: int | None,
    count: int | None,
    known: str | None,
    version: DataVersion,
) -> dict[str, T]:
    """Cut a page out of a table, the whole one where nothing is said of pages."""
    if start is None and count is None and known is None:
        return dict(table)
    begin = max(start or 0, 0)
    try:
        same = known is not None and msgspec.json.decode(known, type=DataVersion) == version
    except ValueError:
        same = False
    begin = begin if same else 0
    size = min(PAGE_MAX, PAGE_MAX if count is None else max(count, 0))
    return {name: table[name] for name in sorted(table)[begin : begin + size]}


def _topics_of(ctx: Context, header: ConsumeStatsRequest) -> list[str]:
    """Choose the topics of a progress report as getTopicsForCollectingConsumeStats does."""
    if header.topic_list:
        return [topic for topic in header.topic_list.split(";") if topic]
    group = ctx.consumers.members.group(header.consumer_group)
    if header.topic and header.topic.strip():
        topics = [header.topic]
    else:
        topics = sorted(ctx.tables.offsets.topics_of(header.consumer_group))
    if group is None or not group.subscriptions:
        return topics
    return [topic for topic in topics if topic in group.subscriptions]


def _connection(member: Member) -> ClientConnection:
    client = member.client
    return ClientConnection(
        client_id=client.client_id,
        client_addr=client.connection.remote,
        language=language_name(client.language),
        version=client.version,
    )
