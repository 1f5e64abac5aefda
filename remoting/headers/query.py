"""Headers that look for messages: 12 and 33."""

from aerobee.remoting.headers._fields import Header, Int32, Int64


class ViewMessageRequest(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID: the record at `offset`, a byte position of the log."""

    offset: Int64
    topic: str | None = None


class QueryMessageRequest(Header, frozen=True, kw_only=True):
    """QUERY_MESSAGE: messages of a topic that carry a key; times in milliseconds since 1970.

    The raw field `_UNIQUE_KEY_QUERY` = "true" means that `key` is a UNIQ_KEY.
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


class QueryMessageReply(Header, frozen=True, kw_only=True):
    """How far the index is (QueryMessageResponseHeader.java)."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64
