"""Headers that ask for and set offsets: 14, 15, 29-32, 220-223."""

from aerobee.remoting.headers.typed import Header, Int32, Int64


class QueryConsumerOffsetRequest(Header, frozen=True, kw_only=True):
    """QUERY_CONSUMER_OFFSET: where a group stopped in one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None  # false: never answer 0 for a group without offset


class OffsetReply(Header, frozen=True, kw_only=True):
    """One offset; the reply to 14, 29, 30 and 31."""

    offset: Int64


class UpdateConsumerOffsetRequest(Header, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET: a group has consumed everything before `commit_offset`."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequest(Header, frozen=True, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP: the offset of the first or last message stored at a time.

    `timestamp` is in milliseconds since 1970; `boundary_type` LOWER (the default) or UPPER, in
    any case (BoundaryType.java).
    """

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    lite_topic: str | None = None


class MaxOffsetRequest(Header, frozen=True, kw_only=True):
    """GET_MAX_OFFSET: one past the newest message of a queue."""

    topic: str
    queue_id: Int32
    committed: bool = True


class MinOffsetRequest(Header, frozen=True, kw_only=True):
    """GET_MIN_OFFSET: the oldest message of a queue that can still be read."""

    topic: str
    queue_id: Int32


class EarliestStoreTimeRequest(Header, frozen=True, kw_only=True):
    """GET_EARLIEST_MSG_STORETIME: when the oldest message of a queue was stored."""

    topic: str
    queue_id: Int32


class TimestampReply(Header, frozen=True, kw_only=True):
    """One time in milliseconds since 1970; the reply to 32."""

    timestamp: Int64


class ResetOffsetRequest(Header, frozen=True, kw_only=True):
    """RESET_CONSUMER_CLIENT_OFFSET and INVOKE_BROKER_TO_RESET_OFFSET.

    A `queue_id` of -1 means every queue; `timestamp` -1 means the end of the queue.
    """

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 = -1
    offset: Int64 | None = None


class ConsumerStatusRequest(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_STATUS_FROM_CLIENT and 223: what a client has consumed of each queue."""

    topic: str
    group: str
    client_addr: str | None = None
