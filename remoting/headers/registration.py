"""Headers between broker and nameserver: 103, 104, 217 and 322."""

import msgspec

from aerobee.remoting.headers.typed import Header, Int32, Int64


class RegisterBrokerRequest(Header, frozen=True, kw_only=True):
    """REGISTER_BROKER: a broker tells where it is and what topics it has.

    `heartbeat_timeout_millis` is how long the nameserver may wait for the next one; `compressed`
    says how the body is written and `body_crc32` is its CRC-32 without the highest bit
    (UtilAll.crc32); 0 means that it is not to be checked.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = msgspec.field(name="bodyCrc32", default=0)


class RegisterBrokerReply(Header, frozen=True, kw_only=True):
    """The master's addresses, for slaves (RegisterBrokerResponseHeader.java)."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequest(Header, frozen=True, kw_only=True):
    """UNREGISTER_BROKER: a broker goes away."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionRequest(Header, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION: does the nameserver know the broker's latest topics?"""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionReply(Header, frozen=True, kw_only=True):
    """Whether the broker has to register; the body holds the nameserver's DataVersion."""

    changed: bool


class RegisterTopicRequest(Header, frozen=True, kw_only=True):
    """REGISTER_TOPIC_IN_NAMESRV: set the queues of one topic, the body is a TopicRouteData."""

    topic: str
