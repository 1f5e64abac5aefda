"""Headers that only the nameserver's tools and brokers' groups use: 205, 224, 327, 901 and 904."""

from aerobee.remoting.headers.typed import Header, Int64


class BrokerNameRequest(Header, frozen=True, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER: which broker is meant."""

    broker_name: str


class WipeWritePermReply(Header, frozen=True, kw_only=True):
    """How many topics of the broker lost their write permission."""

    wipe_topic_count: int


class AddWritePermReply(Header, frozen=True, kw_only=True):
    """How many topics of the broker got their write permission."""

    add_topic_count: int


class TopicsByClusterRequest(Header, frozen=True, kw_only=True):
    """GET_TOPICS_BY_CLUSTER: whose topics are wanted."""

    cluster: str


class BrokerMemberGroupRequest(Header, frozen=True, kw_only=True):
    """GET_BROKER_MEMBER_GROUP: whose addresses are wanted."""

    cluster_name: str
    broker_name: str


class BrokerHeartbeatRequest(Header, frozen=True, kw_only=True):
    """BROKER_HEARTBEAT, as far as a nameserver reads it (BrokerHeartbeatRequestHeader.java)."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
