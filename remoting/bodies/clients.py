"""Bodies in which clients tell who they are, and brokers who is there."""

from typing import Any

import msgspec

from aerobee.remoting.bodies._codec import Body, QueueBody
from aerobee.remoting.headers.typed import Int32, Int64
from aerobee.remoting.words import CLUSTERING, CONSUME_PASSIVELY, TAG


class SubscriptionData(Body, frozen=True, kw_only=True):
    """What a consumer wants of one topic (SubscriptionData.java).

    `sub_string` is the filter as written ("*", "a || b", SQL); `tags_set` and `code_set` are its
    tags and their hashes; a higher `sub_version` (ms since 1970) replaces a lower one.
    """

    topic: str = ""
    sub_string: str = ""
    tags_set: list[str] = []
    code_set: list[Int32] = []
    sub_version: Int64 = 0
    expression_type: str = TAG
    class_filter_mode: bool = False


class ProducerData(Body, frozen=True, kw_only=True):
    """One producer group of a client."""

    group_name: str


class ConsumerData(Body, frozen=True, kw_only=True):
    """One consumer group of a client (ConsumerData.java); the enums by their Java names.

    `handover_timeout_millis` is ours: this member gives a queue up within that time after it lost
    it, says so with UNLOCK_BATCH_MQ, and understands HANDOVER_PENDING. RocketMQ ignores it.
    """

    group_name: str
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False
    handover_timeout_millis: Int32 | None = None


class HeartbeatData(Body, frozen=True, kw_only=True):
    """Everything one client is to a broker, the body of HEART_BEAT (HeartbeatData.java).

    With `without_sub` the subscriptions are left out because `heartbeat_fingerprint` did not
    change since a heartbeat that had them.
    """

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int32 = 0
    without_sub: bool = False


class ConsumerListReply(Body, frozen=True, kw_only=True):
    """The members of a group; the reply to 38 (GetConsumerListByGroupResponseBody.java)."""

    consumer_id_list: list[str] = []


class CheckClientConfig(Body, frozen=True, kw_only=True):
    """A subscription to be checked, the body of 46 (CheckClientRequestBody.java)."""

    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


class ClientConnection(Body, frozen=True, kw_only=True):
    """One connected client (Connection.java); `language` by its Java name."""

    client_id: str
    client_addr: str
    language: str = "JAVA"
    version: Int32 = 0


class ConsumerConnection(Body, frozen=True, kw_only=True):
    """The members of a consumer group and what they want; the reply to 203."""

    connection_set: list[ClientConnection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"


class ProducerConnection(Body, frozen=True, kw_only=True):
    """The members of a producer group; the reply to 204."""

    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, frozen=True, kw_only=True):
    """One connected producer; the time in ms since 1970."""

    client_id: str
    remote_ip: str = msgspec.field(name="remoteIP")
    language: str = "JAVA"
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTableInfo(Body, frozen=True, kw_only=True):
    """All producers by group; the reply to 328."""

    data: dict[str, list[ProducerInfo]] = {}


class ProcessQueueInfo(Body, frozen=True, kw_only=True):
    """What a consumer holds of one queue (ProcessQueueInfo.java, whose spelling `droped` is)."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mi_b: Int32 = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    droped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class ConsumeStatus(Body, frozen=True, kw_only=True):
    """How fast a consumer is on one topic: times in ms, rates per second (ConsumeStatus.java)."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: Int64 = 0


class ConsumerRunningInfo(Body, frozen=True, kw_only=True):
    """What a consumer is doing; the reply to 307. Write it not strict."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[QueueBody, ProcessQueueInfo] = {}
    mq_pop_table: dict[QueueBody, dict[str, Any]] = {}
    status_table: dict[str, ConsumeStatus] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class ConsumeDirectlyResult(Body, frozen=True, kw_only=True):
    """How a message was taken that a client was asked to consume at once; the reply to 309.

    `consume_result` is one of CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION
    and CR_RETURN_NULL; `spent_time_mills` is in milliseconds.
    """

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: Int64 = 0


class SubscriptionReply(Body, frozen=True, kw_only=True):
    """What a group wants of a topic; the reply to 345 (QuerySubscriptionResponseBody.java)."""

    group: str
    topic: str | None = None
    subscription_data: SubscriptionData | None = None
