"""Headers about groups: 203, 204, 207, 208, 300, 303, 343, 345 and 352 (200 has only a body)."""

from aerobee.remoting.headers.typed import Header, Int32


class DeleteGroupRequest(Header, frozen=True, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP; with `clean_offset` the group's committed offsets go as well."""

    group_name: str
    clean_offset: bool = False


class GroupRequest(Header, frozen=True, kw_only=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG: one group's configuration."""

    group: str


class ConsumerConnectionRequest(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST: the connected members of a consumer group."""

    consumer_group: str


class ProducerConnectionRequest(Header, frozen=True, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST: the connected members of a producer group."""

    producer_group: str


class ConsumeStatsRequest(Header, frozen=True, kw_only=True):
    """GET_CONSUME_STATS: a group's progress, in one topic, in several (";" between) or in all."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class ConsumeByWhoRequest(Header, frozen=True, kw_only=True):
    """QUERY_TOPIC_CONSUME_BY_WHO: the groups that consume a topic."""

    topic: str


class ConsumeTimeSpanRequest(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN: how far behind a group is in each queue, in time."""

    topic: str
    group: str


class TopicsByConsumerRequest(Header, frozen=True, kw_only=True):
    """QUERY_TOPICS_BY_CONSUMER: the topics that a group has offsets of."""

    group: str


class SubscriptionByConsumerRequest(Header, frozen=True, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER: what a group wants of a topic."""

    group: str
    topic: str | None = None


class AllGroupConfigRequest(Header, frozen=True, kw_only=True):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: every group, or a page of them as for topics."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class AllGroupConfigReply(Header, frozen=True, kw_only=True):
    """How many groups there are in all."""

    total_group_num: Int32


class GroupForbiddenRequest(Header, frozen=True, kw_only=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic; no change without a word.

    (UpdateGroupForbiddenRequestHeader.java)
    """

    group: str
    topic: str
    readable: bool | None = None


class CloneGroupOffsetRequest(Header, frozen=True, kw_only=True):
    """CLONE_GROUP_OFFSET: give one group the offsets of another, in one topic or in all."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class CorrectionOffsetRequest(Header, frozen=True, kw_only=True):
    """QUERY_CORRECTION_OFFSET: the least offsets of all groups, against those of one."""

    topic: str
    compare_group: str
    filter_groups: str | None = None  # left out; "," between


class AllConsumeStatsRequest(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONSUME_STATS: of all topics, or of ordered ones alone."""

    is_order: bool
