"""Headers that look for messages: 12 and 33."""

from aerobee.remoting.headers.typed import Header, Int32, Int64


class ViewMessageRequest(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID: the record at `offset`, a byte position of the log."""

    offset: Int64
    topic: str | None = None


class QueryMessageRequest(Header, frozen=True, kw_only=True):
    """QUERY_MESSAGE: the newest records that an index names (QueryMessageRequestHeader.java).

    The broker compares hashes of keys, not the keys. Times are milliseconds since 1970, and store
    times are rounded down to a second first. `index_type` is "K" for keys, "U" for the ids that
    clients give, "T" for tags; `last_key` continues in an index that is kept in RocksDB.
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
