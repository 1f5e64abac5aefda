"""Headers of 370: taking a message back."""

from aerobee.remoting.headers.typed import Header


class RecallMessageRequest(Header, frozen=True, kw_only=True):
    """RECALL_MESSAGE: the message of a handle that a send was answered with."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageReply(Header, frozen=True, kw_only=True):
    """The unique key of the message."""

    msg_id: str
