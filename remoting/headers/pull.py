"""Headers of the pull family: 11 and 361."""

import msgspec

from aerobee.remoting.headers.typed import Header, Int32, Int64


class PullMessageRequest(Header, frozen=True, kw_only=True):
    """Which messages of one queue a consumer wants next (PullMessageRequestHeader.java).

    `sys_flag` holds PullSysFlag bits; `commit_offset` counts only with COMMIT_OFFSET, the
    subscription only with SUBSCRIPTION, `suspend_timeout_millis` only with SUSPEND. `lo`
    is false where the queue is a physical one, whatever static topic it is of. `full_reply` is
    ours: more than `max_msg_nums` messages may come, as many as a reply holds by its bytes.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # RocketMQ's own spelling
    lite_topic: str | None = None
    lo: bool | None = None
    full_reply: bool | None = msgspec.field(name="AEROBEE_FULL_REPLY", default=None)


class PullMessageReply(Header, frozen=True, kw_only=True):
    """Where to go on (PullMessageResponseHeader.java); offsets count messages of the queue."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
