"""Headers that look for messages: 12, 33."""

from aerobee.remoting.headers.typed import Header, Int32, Int64


class ViewMessageRequest(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID: the record at `offset`, a byte position of the log."""

    offset: Int64
    topic: str | None = None


class QueryMessageRequest(Header, frozen=True, kw_only=True):
    """QUERY_MESSAGE: messages of a topic with a key, stored between two times (ms).

    `index_type` is K (a key, the default), U (a unique key) or T (tags); `last_key` is of
    RocketMQ's other index.
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None


class QueryMessageReply(Header, frozen=True, kw_only=True):
    """When the newest message of the index was stored (ms), and its position."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class QueryQueueRequest(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_QUEUE: so many entries of a queue, and what a group wants of its topic."""

    topic: str
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
