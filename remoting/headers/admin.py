"""Headers of broker administration: 26, 315, 355, 908 and 200076-200079."""

from aerobee.remoting.headers.typed import Header, Int32, Int64


class BrokerConfigReply(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONFIG: the version of the configuration in the body (a DataVersion as JSON)."""

    version: str


class ViewStatsRequest(Header, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA: one statistic, such as TOPIC_PUT_NUMS of a topic."""

    stats_name: str
    stats_key: str


class ExportTablesRequest(Header, frozen=True, kw_only=True):
    """EXPORT_ROCKSDB_CONFIG_TO_JSON: which tables, joined by semicolons."""

    config_type: str


class MasterFlushOffsetRequest(Header, frozen=True, kw_only=True):
    """RESET_MASTER_FLUSH_OFFSET: how far a master has flushed its log, for a copy."""

    master_flush_offset: Int64 | None = None


class LiteTopicRequest(Header, frozen=True, kw_only=True):
    """GET_LITE_TOPIC_INFO: one lite topic of a parent."""

    parent_topic: str
    lite_topic: str


class LiteClientRequest(Header, frozen=True, kw_only=True):
    """GET_LITE_CLIENT_INFO: what a client has subscribed to."""

    parent_topic: str
    group: str
    client_id: str | None = None
    max_count: Int32 | None = None


class LiteGroupRequest(Header, frozen=True, kw_only=True):
    """GET_LITE_GROUP_INFO and TRIGGER_LITE_DISPATCH: a group, one of its topics or its clients."""

    group: str
    lite_topic: str | None = None
    top_k: Int32 | None = None
    client_id: str | None = None
