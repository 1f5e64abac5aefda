"""Bodies that say where topics and brokers are."""

from typing import Any

from aerobee.remoting.bodies._codec import Body
from aerobee.remoting.headers.typed import Int32, Int64


class QueueData(Body, frozen=True, kw_only=True, gc=False):
    """How many queues one broker has of a topic (QueueData.java)."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(Body, frozen=True, kw_only=True):
    """The addresses of one broker name, by broker id; 0 is the master (BrokerData.java)."""

    cluster: str = ""
    broker_name: str
    broker_addrs: dict[Int64, str] = {}
    zone_name: str | None = None
    enable_acting_master: bool = False


class TopicRouteData(Body, frozen=True, kw_only=True):
    """Where a topic is; the reply to GET_ROUTEINFO_BY_TOPIC (TopicRouteData.java)."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    topic_queue_mapping_by_broker: dict[str, Any] | None = None


class ClusterInfo(Body, frozen=True, kw_only=True):
    """All brokers by name, and broker names by cluster; the reply to 106 (ClusterInfo.java)."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body, frozen=True, kw_only=True):
    """The addresses of one broker name (BrokerMemberGroup.java)."""

    cluster: str
    broker_name: str
    broker_addrs: dict[Int64, str] = {}


class BrokerMemberGroupReply(Body, frozen=True, kw_only=True):
    """The reply to GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup
