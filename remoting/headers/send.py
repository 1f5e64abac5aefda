"""Headers of the send family: 10, 36, 310 and 320."""

from typing import TypeAlias

import msgspec

from aerobee.remoting.headers.typed import Header, Int32, Int64


class SendMessageRequest(Header, frozen=True, kw_only=True):
    """SEND_MESSAGE with its fields written out (SendMessageRequestHeader.java).

    `properties` is the property string, `born_timestamp` milliseconds since 1970; `batch` says
    that the body holds several messages.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessageRequestV2(Header, frozen=True, kw_only=True):
    """The same with one-letter names, as clients send it (SendMessageRequestHeaderV2.java)."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str | None = msgspec.field(name="i", default=None)
    reconsume_times: Int32 | None = msgspec.field(name="j", default=None)
    unit_mode: bool | None = msgspec.field(name="k", default=None)
    max_reconsume_times: Int32 | None = msgspec.field(name="l", default=None)
    batch: bool | None = msgspec.field(name="m", default=None)
    broker_name: str | None = msgspec.field(name="n", default=None)


AnySend: TypeAlias = SendMessageRequest | SendMessageRequestV2


class SendMessageReply(Header, frozen=True, kw_only=True):
    """Where the message went (SendMessageResponseHeader.java).

    `msg_id` is the broker's id, host and position in hex; for a batch all of them, joined by
    commas. `queue_offset` counts messages; for a batch it is the first one's.
    """

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


class PushReplyRequest(Header, frozen=True, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT: the answer to a request (ReplyMessageRequestHeader.java).

    The fields of the reply's send, and where it came from and where it is stored, "ip:port"; times
    are milliseconds since 1970. `sys_flag` says how the body is compressed.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64


class SendBackRequest(Header, frozen=True, kw_only=True):
    """CONSUMER_SEND_MSG_BACK: a message could not be handled (ConsumerSendMsgBackRequestHeader).

    `offset` is the record's position; `delay_level` 0 lets the broker choose, a negative one sends
    the message to the dead letters at once.
    """

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
