"""Headers that look for messages: 33."""

from aerobee.remoting.headers.typed import Header, Int64


class ViewMessageRequest(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID: the record at `offset`, a byte position of the log."""

    offset: Int64
    topic: str | None = None
