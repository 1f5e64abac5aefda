"""What a request must be allowed before it is served: one table of all codes that are served.

Where RocketMQ 5.5.0 asks for something, the same is asked here; 41 of its codes ask for nothing,
and get what fits them (README.md). A test holds this table against the registered codes.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from aerobee.remoting.bodies import (
    CreateTopicListBody,
    HeartbeatData,
    LockBatchBody,
    QueryAssignmentBody,
    RequestModeBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    decode_body,
)
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.command import Command
from aerobee.remoting.net.access.policies import Action, Need, Resource, ResourceKind, group, topic

Needs = Callable[[Command, str], Iterable[Need]]
"""What a command must be allowed, in the cluster of this name."""

PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE


def cluster(*actions: Action) -> Needs:
    """Need this of the cluster."""
    return lambda command, name: (Need(Resource(ResourceKind.CLUSTER, name), actions),)


def of_topic(field: str, *actions: Action) -> Needs:
    """Need this of the topic that a field names; of the cluster, where it names none."""

    def needs(command: Command, cluster_name: str) -> Iterator[Need]:
        name = command.ext.get(field)
        resource = topic(name) if name else Resource(ResourceKind.CLUSTER, cluster_name)
        yield Need(resource, actions if name else (GET,))

    return needs


def of_group(field: str, *actions: Action) -> Needs:
    """Need this of the group that a field names; of the cluster, where it names none."""

    def needs(command: Command, cluster_name: str) -> Iterator[Need]:
        name = command.ext.get(field)
        resource = group(name) if name else Resource(ResourceKind.CLUSTER, cluster_name)
        yield Need(resource, actions if name else (GET,))

    return needs


def both(*each: Needs) -> Needs:
    """Need all of these; those of a group's own retry topic are the group's already."""
    return lambda command, name: chain.from_iterable(needs(command, name) for needs in each)


def free(command: Command, name: str) -> Iterable[Need]:
    """Need nothing: whoever is authenticated may."""
    return ()


def publishing(field: str) -> Needs:
    """Need to publish; to send to a group's retry topic is to consume as that group."""

    def needs(command: Command, cluster_name: str) -> Iterator[Need]:
        resource = topic(command.ext.get(field, ""))
        yield Need(resource, (SUB,) if resource.kind is ResourceKind.GROUP else (PUB,))

    return needs


def heartbeat(command: Command, name: str) -> Iterator[Need]:
    """Need to consume what the subscriptions name; producers are not asked, as with RocketMQ."""
    for consumer in decode_body(HeartbeatData, command.body).consumer_data_set:
        yield Need(group(consumer.group_name), (SUB,))
        for subscription in consumer.subscription_data_set:
            yield Need(topic(subscription.topic), (SUB,))


def locking(command: Command, name: str) -> Iterator[Need]:
    """Need to consume the queues that are locked, or given back."""
    body = decode_body(LockBatchBody, command.body)
    yield Need(group(body.consumer_group), (SUB,))
    for each in {queue.topic for queue in body.mq_set}:
        yield Need(topic(each), (SUB,))


def assignment(command: Command, name: str) -> Iterator[Need]:
    """Need to consume a topic as a group."""
    body = decode_body(QueryAssignmentBody, command.body)
    yield Need(group(body.consumer_group), (SUB,))
    yield Need(topic(body.topic), (SUB,))


def request_mode(command: Command, name: str) -> Iterator[Need]:
    """Need to change how a group gets a topic."""
    body = decode_body(RequestModeBody, command.body)
    yield Need(group(body.consumer_group), (UPDATE,))
    yield Need(topic(body.topic), (UPDATE,))


def group_config(command: Command, name: str) -> Iterator[Need]:
    """Need to change the group that the body configures."""
    yield Need(group(decode_body(SubscriptionGroupConfig, command.body).group_name), (UPDATE,))


def topic_configs(command: Command, name: str) -> Iterator[Need]:
    """Need to make each topic that the body has; of an empty list, to look at the cluster."""
    configs = decode_body(CreateTopicListBody, command.body).topic_config_list
    for each in {config.topic_name for config in configs}:
        yield Need(topic(each), (CREATE,))
    if not configs:
        yield Need(Resource(ResourceKind.CLUSTER, name), (GET,))


def group_configs(command: Command, name: str) -> Iterator[Need]:
    """Need to change each group that the body configures; else as `topic_configs`."""
    configs = decode_body(SubscriptionGroupList, command.body).group_config_list
    for each in {config.group_name for config in configs}:
        yield Need(group(each), (UPDATE,))
    if not configs:
        yield Need(Resource(ResourceKind.CLUSTER, name), (GET,))


def leaving(command: Command, name: str) -> Iterator[Need]:
    """Need to consume as the group that is left; a producer needs nothing."""
    if consumer_group := command.ext.get("consumerGroup"):
        yield Need(group(consumer_group), (SUB,))


def ending(command: Command, name: str) -> Iterator[Need]:
    """Need to publish to the topic of the half message, where the request says which."""
    if name_of_topic := command.ext.get("topic"):
        yield Need(topic(name_of_topic), (PUB,))


CONSUMING: Final = both(of_topic("topic", SUB), of_group("consumerGroup", SUB))
OFFSET_READ: Final = both(of_topic("topic", SUB, GET), of_group("consumerGroup", SUB, GET))
OFFSET_WRITTEN: Final = both(of_topic("topic", SUB, UPDATE), of_group("consumerGroup", SUB, UPDATE))
GROUP_OF_TOPIC: Final = both(of_topic("topic", GET), of_group("group", GET))

NEEDS: Final[dict[int, Needs]] = {
    # sending
    Code.SEND_MESSAGE: publishing("topic"),
    Code.SEND_MESSAGE_V2: publishing("b"),
    Code.SEND_BATCH_MESSAGE: publishing("b"),
    Code.SEND_REPLY_MESSAGE: of_topic("topic", PUB),
    Code.SEND_REPLY_MESSAGE_V2: of_topic("b", PUB),
    Code.RECALL_MESSAGE: of_topic("topic", PUB),
    Code.END_TRANSACTION: ending,
    Code.RESUME_CHECK_HALF_MESSAGE: of_topic("topic", UPDATE),
    # consuming
    Code.PULL_MESSAGE: CONSUMING,
    Code.LITE_PULL_MESSAGE: CONSUMING,
    Code.CONSUMER_SEND_MSG_BACK: of_group("group", SUB),
    Code.HEART_BEAT: heartbeat,
    Code.UNREGISTER_CLIENT: leaving,
    Code.CHECK_CLIENT_CONFIG: free,
    Code.GET_CONSUMER_LIST_BY_GROUP: of_group("consumerGroup", SUB, GET),
    Code.LOCK_BATCH_MQ: locking,
    Code.UNLOCK_BATCH_MQ: locking,
    Code.QUERY_ASSIGNMENT: assignment,
    Code.QUERY_CONSUMER_OFFSET: OFFSET_READ,
    Code.UPDATE_CONSUMER_OFFSET: OFFSET_WRITTEN,
    # looking at messages and queues
    Code.QUERY_MESSAGE: of_topic("topic", SUB, GET),
    Code.VIEW_MESSAGE_BY_ID: free,  # the record says of which topic it is: `check_seen`
    Code.SEARCH_OFFSET_BY_TIMESTAMP: of_topic("topic", GET),
    Code.GET_MAX_OFFSET: of_topic("topic", GET),
    Code.GET_MIN_OFFSET: of_topic("topic", GET),
    Code.GET_EARLIEST_MSG_STORETIME: of_topic("topic", GET),
    Code.GET_TOPIC_STATS_INFO: of_topic("topic", GET),
    Code.GET_TOPIC_CONFIG: of_topic("topic", GET),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: of_topic("topic", GET),
    Code.QUERY_CONSUME_QUEUE: of_topic("topic", GET),
    Code.GET_PARENT_TOPIC_INFO: of_topic("topic", GET),
    Code.GET_LITE_TOPIC_INFO: of_topic("parentTopic", GET),
    # looking at groups
    Code.GET_CONSUMER_CONNECTION_LIST: of_group("consumerGroup", GET),
    Code.GET_CONSUMER_RUNNING_INFO: of_group("consumerGroup", GET),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: of_group("group", GET),
    Code.QUERY_TOPICS_BY_CONSUMER: of_group("group", GET),
    Code.GET_CONSUME_STATS: both(of_topic("topic", GET), of_group("consumerGroup", GET)),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: GROUP_OF_TOPIC,
    Code.QUERY_CONSUME_TIME_SPAN: GROUP_OF_TOPIC,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GROUP_OF_TOPIC,
    Code.QUERY_CORRECTION_OFFSET: both(of_topic("topic", GET), of_group("compareGroup", GET)),
    Code.GET_LITE_CLIENT_INFO: both(of_topic("parentTopic", GET), of_group("group", GET)),
    Code.GET_LITE_GROUP_INFO: of_group("group", GET),
    # changing
    Code.UPDATE_AND_CREATE_TOPIC: of_topic("topic", CREATE),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: topic_configs,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: of_topic("topic", CREATE),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: group_configs,
    Code.TRIGGER_LITE_DISPATCH: of_group("group", UPDATE),
    Code.DELETE_TOPIC_IN_BROKER: of_topic("topic", DELETE),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: group_config,
    Code.DELETE_SUBSCRIPTIONGROUP: of_group("groupName", DELETE),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: both(of_topic("topic", UPDATE), of_group("group", UPDATE)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: both(of_topic("topic", UPDATE), of_group("group", UPDATE)),
    Code.CLONE_GROUP_OFFSET: both(of_group("srcGroup", GET), of_group("destGroup", UPDATE)),
    Code.CONSUME_MESSAGE_DIRECTLY: both(of_topic("topic", SUB), of_group("consumerGroup", SUB)),
    Code.SET_MESSAGE_REQUEST_MODE: request_mode,
    # the whole broker
    Code.GET_ALL_TOPIC_CONFIG: cluster(GET),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: cluster(GET),
    Code.GET_ALL_CONSUMER_OFFSET: cluster(GET),
    Code.GET_ALL_DELAY_OFFSET: cluster(GET),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: cluster(GET),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: cluster(GET),
    Code.GET_TIMER_CHECK_POINT: cluster(GET),
    Code.GET_TIMER_METRICS: cluster(GET),
    Code.GET_BROKER_RUNTIME_INFO: cluster(GET),
    Code.GET_BROKER_CONFIG: cluster(GET),
    Code.GET_PRODUCER_CONNECTION_LIST: cluster(GET),
    Code.GET_ALL_PRODUCER_INFO: cluster(GET),
    Code.VIEW_BROKER_STATS_DATA: cluster(GET),
    Code.GET_BROKER_CONSUME_STATS: cluster(GET),
    Code.GET_BROKER_HA_STATUS: cluster(GET),
    Code.GET_BROKER_EPOCH_CACHE: cluster(GET),
    Code.GET_BROKER_LITE_INFO: cluster(GET),
    Code.GET_COLD_DATA_FLOW_CTR_INFO: cluster(GET),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: cluster(GET),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: cluster(UPDATE),
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: cluster(UPDATE),
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: cluster(UPDATE),
    Code.SET_COMMITLOG_READ_MODE: cluster(UPDATE),
    Code.SWITCH_TIMER_ENGINE: cluster(UPDATE),
    Code.RESET_MASTER_FLUSH_OFFSET: cluster(UPDATE),
    Code.POP_ROLLBACK: cluster(UPDATE),
    Code.UPDATE_BROKER_CONFIG: cluster(UPDATE),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: cluster(UPDATE),
    Code.CLEAN_UNUSED_TOPIC: cluster(UPDATE),
    Code.DELETE_EXPIRED_COMMITLOG: cluster(UPDATE),
    # users and policies
    Code.AUTH_CREATE_USER: cluster(UPDATE),
    Code.AUTH_UPDATE_USER: cluster(UPDATE),
    Code.AUTH_DELETE_USER: cluster(UPDATE),
    Code.AUTH_GET_USER: cluster(GET),
    Code.AUTH_LIST_USER: cluster(GET),
    Code.AUTH_CREATE_ACL: cluster(UPDATE),
    Code.AUTH_UPDATE_ACL: cluster(UPDATE),
    Code.AUTH_DELETE_ACL: cluster(UPDATE),
    Code.AUTH_GET_ACL: cluster(GET),
    Code.AUTH_LIST_ACL: cluster(GET),
}


def needs_of(cluster_name: str) -> Callable[[Command], Iterable[Need]]:
    """Return what asks the table; a code that is not in it needs to change the cluster."""
    unknown = cluster(UPDATE)
    return lambda command: NEEDS.get(command.code, unknown)(command, cluster_name)
