"""Bodies by which a broker shares out queues for clients that do not: 400, 401 and 402."""

from aerobee.remoting.bodies._codec import Body, QueueBody
from aerobee.remoting.headers.typed import Int32
from aerobee.remoting.words import CLUSTERING


class QueryAssignmentBody(Body, frozen=True, kw_only=True):
    """Who asks for its share of a topic, the body of 400 (QueryAssignmentRequestBody.java)."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: str = CLUSTERING


class QueueAssignment(Body, frozen=True, kw_only=True):
    """One queue and how to get its messages: PULL or POP (MessageQueueAssignment.java)."""

    message_queue: QueueBody
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentReply(Body, frozen=True, kw_only=True):
    """A client's share; without one (None) it keeps the queues that it has."""

    message_queue_assignments: list[QueueAssignment] | None = None


class RequestModeBody(Body, frozen=True, kw_only=True):
    """How a group gets a topic's messages, the body of 401 (SetMessageRequestModeRequestBody).

    `pop_share_queue_num` is how many clients share a queue in mode POP.
    """

    topic: str
    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: Int32 = 0


class RequestModes(Body, frozen=True, kw_only=True):
    """All modes by topic and group; the reply to 402, and messageRequestMode.json."""

    message_request_mode_map: dict[str, dict[str, RequestModeBody]] = {}
