"""Bodies that describe topics: their configuration, lists of them, where their messages end."""

from typing import Any

from aerobee.remoting.bodies._codec import Body, QueueBody
from aerobee.remoting.headers.typed import Int32, Int64


class DataVersion(Body, frozen=True, kw_only=True):
    """Which state of a table somebody has (DataVersion.java); `timestamp` in ms since 1970."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


class TopicConfig(Body, frozen=True, kw_only=True, gc=False):
    """A topic as its broker keeps it (TopicConfig.java); `perm` holds Perm bits."""

    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = {}


class TopicConfigSerializeWrapper(Body, frozen=True, kw_only=True):
    """All topics of a broker with their version; static topics' maps are passed on as read."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_info_map: dict[str, Any] = {}
    topic_queue_mapping_detail_map: dict[str, Any] = {}


class RegisterBrokerBody(Body, frozen=True, kw_only=True):
    """What a broker of version 3.0.11 or later registers with (RegisterBrokerBody.java)."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = TopicConfigSerializeWrapper()
    filter_server_list: list[str] = []


class TopicList(Body, frozen=True, kw_only=True):
    """Names of topics; the reply to 206, 224, 304, 305 and 343."""

    topic_list: list[str] = []
    broker_addr: str | None = None


class CreateTopicListBody(Body, frozen=True, kw_only=True):
    """Topics to create or change together (CreateTopicListRequestBody.java)."""

    topic_config_list: list[TopicConfig] = []


class TopicOffset(Body, frozen=True, kw_only=True):
    """Where one queue begins and ends, in messages; the time in ms since 1970."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStatsTable(Body, frozen=True, kw_only=True):
    """Where the queues of a topic begin and end; the reply to 202. Write it not strict."""

    offset_table: dict[QueueBody, TopicOffset] = {}
    topic_put_tps: float = 0.0


class KVTable(Body, frozen=True, kw_only=True):
    """A table of strings, the reply to 28 and 219."""

    table: dict[str, str] = {}
