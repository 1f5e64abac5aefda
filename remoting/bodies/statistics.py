"""Bodies that tell what a broker counts and keeps: 315, 321, 354, 907 and 200074 to 200076."""

from aerobee.remoting.bodies._codec import Body
from aerobee.remoting.bodies.clients import SubscriptionData
from aerobee.remoting.bodies.topics import TopicOffset
from aerobee.remoting.headers.typed import Int32, Int64


class StatsWindow(Body, frozen=True, kw_only=True):
    """What came in a stretch of time: all, per second, per message (BrokerStatsItem.java)."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStats(Body, frozen=True, kw_only=True):
    """A statistic over the last minute, hour and day; the reply to 315 (BrokerStatsData.java)."""

    stats_minute: StatsWindow = StatsWindow()
    stats_hour: StatsWindow = StatsWindow()
    stats_day: StatsWindow = StatsWindow()


class QueueEntry(Body, frozen=True, kw_only=True, gc=False):
    """Where a message lies in the log, and the hash of its tag (ConsumeQueueData.java).

    The other fields are those of queues that RocketMQ extends by what filters make of messages.
    """

    physic_offset: Int64
    physic_size: Int32
    tags_code: Int64
    eval: bool = False
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


class QueueEntriesBody(Body, frozen=True, kw_only=True):
    """Entries of a queue and who reads it; the reply to 321 (QueryConsumeQueueResponseBody)."""

    min_queue_index: Int64 = 0
    max_queue_index: Int64 = 0
    queue_data: list[QueueEntry] | None = None
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class QueueCheck(Body, frozen=True, kw_only=True):
    """Whether RocksDB has what queues have; the reply to 354 (CheckRocksdbCqWriteResult.java).

    `check_status` is 0 for yes, 1 for no, 2 while it is looked at, 3 after an error.
    """

    check_status: Int32 = 0
    check_result: str | None = None


class ReplicaClient(Body, frozen=True, kw_only=True):
    """How far a copy has come (HARuntimeInfo.HAClientRuntimeInfo); of a master all is nothing."""

    master_addr: str | None = None
    transferred_byte_in_second: Int64 = 0
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_flush_offset: Int64 = 0


class ReplicaConnection(Body, frozen=True, kw_only=True):
    """A copy that a master feeds (HARuntimeInfo.HAConnectionRuntimeInfo)."""

    addr: str
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class Replication(Body, frozen=True, kw_only=True):
    """A broker's copies; the reply to 907 (HARuntimeInfo.java)."""

    master: bool = True
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[ReplicaConnection] = []
    ha_client_runtime_info: ReplicaClient = ReplicaClient()


class LiteBroker(Body, frozen=True, kw_only=True):
    """What a broker has of lite topics; the reply to 200074 (GetBrokerLiteInfoResponseBody)."""

    store_type: str = "default"
    max_lmq_num: Int32 = 0
    current_lmq_num: Int32 = 0
    lite_subscription_count: Int32 = 0
    order_info_count: Int32 = 0
    cq_table_size: Int32 = 0
    offset_table_size: Int32 = 0
    event_map_size: Int32 = 0
    topic_meta: dict[str, Int32] = {}
    group_meta: dict[str, list[str]] = {}


class LiteParent(Body, frozen=True, kw_only=True):
    """A topic that has lite topics; the reply to 200075 (GetParentTopicInfoResponseBody.java)."""

    topic: str
    ttl: Int32 = -1
    groups: list[str] | None = None
    lmq_num: Int32 = 0
    lite_topic_count: Int32 = 0


class LiteTopic(Body, frozen=True, kw_only=True):
    """A lite topic; the reply to 200076 (GetLiteTopicInfoResponseBody.java)."""

    parent_topic: str
    lite_topic: str
    subscriber: list[str] = []
    topic_offset: TopicOffset = TopicOffset()
    sharding_to_broker: bool = True
