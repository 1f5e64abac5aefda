"""Headers of who is there: 34, 35, 38, 40, and what a broker asks a client: 307, 309."""

import msgspec

from aerobee.remoting.headers.typed import Header, Int32


class HeartbeatRequest(Header, frozen=True, kw_only=True):
    """HEART_BEAT, whose content is its body; our own client says here that it knows msgpack."""

    msgpack: bool | None = msgspec.field(name="AEROBEE_MSGPACK", default=None)


class HeartbeatReply(Header, frozen=True, kw_only=True):
    """What a broker says to a heartbeat (ClientManageProcessor.java).

    `msgpack` offers the msgpack header codec on this connection, to a client that knows it.
    `handover` tells a client that announced a handover_timeout_millis that this broker holds the
    queues which it loses until it gives them up.
    """

    is_support_heart_beat_v2: bool = msgspec.field(name="IS_SUPPORT_HEART_BEAT_V2", default=True)
    is_sub_change: bool = msgspec.field(name="IS_SUB_CHANGE", default=True)
    msgpack: bool | None = msgspec.field(name="AEROBEE_MSGPACK", default=None)
    handover: bool | None = msgspec.field(name="AEROBEE_HANDOVER", default=None)


class UnregisterClientRequest(Header, frozen=True, kw_only=True):
    """UNREGISTER_CLIENT: a producer or consumer group of this client goes away."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerListRequest(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP: the client ids that share the group's queues."""

    consumer_group: str


class NotifyConsumerIdsChangedRequest(Header, frozen=True, kw_only=True):
    """NOTIFY_CONSUMER_IDS_CHANGED: the group's members changed, rebalance at once."""

    consumer_group: str


class ConsumerRunningInfoRequest(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO: what a consumer is doing at this moment."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectlyRequest(Header, frozen=True, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY: let this client handle the record in the body at once."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
