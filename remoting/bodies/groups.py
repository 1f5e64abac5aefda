"""Bodies that describe consumer groups: configuration, progress, locks, resets."""

import msgspec

from aerobee.remoting.bodies._codec import Body, QueueBody
from aerobee.remoting.bodies.topics import DataVersion
from aerobee.remoting.headers.typed import Int32, Int64


class ExponentialRetryPolicy(Body, frozen=True, kw_only=True):
    """Waits that grow by a factor, in milliseconds (ExponentialRetryPolicy.java)."""

    initial: Int64 = 5_000
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


class CustomizedRetryPolicy(Body, frozen=True, kw_only=True):
    """Waits from a list, in milliseconds (CustomizedRetryPolicy.java)."""

    next: list[Int64] = []


class GroupRetryPolicy(Body, frozen=True, kw_only=True):
    """How long a message waits before it is tried again (GroupRetryPolicy.java)."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


class SimpleSubscriptionData(Body, frozen=True, kw_only=True):
    """A subscription that belongs to a group's configuration (SimpleSubscriptionData.java)."""

    topic: str
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body, frozen=True, kw_only=True):
    """A consumer group as its broker keeps it (SubscriptionGroupConfig.java)."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = GroupRetryPolicy()
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = {}


class SubscriptionGroupList(Body, frozen=True, kw_only=True):
    """Groups to create or change together, the body of 225."""

    group_config_list: list[SubscriptionGroupConfig] = []


class SubscriptionGroupWrapper(Body, frozen=True, kw_only=True):
    """All groups of a broker; the reply to 201 (SubscriptionGroupWrapper.java)."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, Int32]] = {}
    data_version: DataVersion = DataVersion()


class GroupList(Body, frozen=True, kw_only=True):
    """Names of groups; the reply to 300."""

    group_list: list[str] = []


class OffsetWrapper(Body, frozen=True, kw_only=True):
    """Where a queue ends and where a group is in it (OffsetWrapper.java); times in ms."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(Body, frozen=True, kw_only=True):
    """The progress of a group; the reply to 208. Write it not strict."""

    offset_table: dict[QueueBody, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumerOffsets(Body, frozen=True, kw_only=True):
    """Committed offsets by "topic@group" and queue (ConsumerOffsetSerializeWrapper.java).

    Of groups of light queues, which have one queue each, by "topic@group" alone; None elsewhere.
    """

    offset_table: dict[str, dict[Int32, Int64]] = {}
    lmq_offset_table: dict[str, Int64] | None = None
    data_version: DataVersion | None = None


class DelayOffsets(Body, frozen=True, kw_only=True):
    """Next offset to deliver by delay level (DelayOffsetSerializeWrapper.java)."""

    offset_table: dict[Int32, Int64] = {}
    data_version: DataVersion | None = None


class LockBatchBody(Body, frozen=True, kw_only=True):
    """Queues that a member wants to own or to give back, the body of 41 and 42."""

    consumer_group: str
    client_id: str
    only_this_broker: bool = False
    mq_set: list[QueueBody] = []


class LockBatchReply(Body, frozen=True, kw_only=True):
    """The queues that the member owns; the reply to 41."""

    lock_ok_mq_set: list[QueueBody] = msgspec.field(name="lockOKMQSet", default_factory=list)


class ResetOffsetBody(Body, frozen=True, kw_only=True):
    """Where to go on, by queue, the body of 220. Write it not strict."""

    offset_table: dict[QueueBody, Int64] = {}


class QueueOffset(Body, frozen=True, kw_only=True):
    """A queue with an offset (MessageQueueForC.java)."""

    topic: str
    broker_name: str
    queue_id: Int32
    offset: Int64


class ResetOffsetBodyForC(Body, frozen=True, kw_only=True):
    """The same as a list, for clients in C++."""

    offset_table: list[QueueOffset] = []


class ConsumerStatusBody(Body, frozen=True, kw_only=True):
    """Where one client, or each of several, is in its queues; the reply to 221 and 223.

    Write it not strict (GetConsumerStatusBody.java).
    """

    message_queue_table: dict[QueueBody, Int64] = {}
    consumer_table: dict[str, dict[QueueBody, Int64]] = {}


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """Times of the oldest, newest and last consumed message of a queue; `delay_time` in ms."""

    message_queue: QueueBody
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0


class ConsumeTimeSpanBody(Body, frozen=True, kw_only=True):
    """How far behind a group is, by queue; the reply to 303 (QueryConsumeTimeSpanBody.java)."""

    consume_time_span_set: list[QueueTimeSpan] = []


class GroupForbidden(Body, frozen=True, kw_only=True):
    """Whether a group may read a topic; the reply to 353 (GroupForbidden.java)."""

    group: str
    topic: str
    readable: bool


class CorrectionOffsetsBody(Body, frozen=True, kw_only=True):
    """Offsets by queue; the reply to 308 (QueryCorrectionOffsetBody.java)."""

    correction_offsets: dict[Int32, Int64] = {}
