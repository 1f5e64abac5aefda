"""Bodies by which a broker shares queues out: 400, 401 and 402."""

from aerobee.remoting.bodies._codec import Body, MessageQueue
from aerobee.remoting.headers._fields import Int32


class QueryAssignmentBody(Body, frozen=True, kw_only=True):
    """Who asks for its queues of one topic, the body of 400 (QueryAssignmentRequestBody.java)."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str = "CLUSTERING"


class QueueAssignment(Body, frozen=True, kw_only=True):
    """One queue and how it is consumed: PULL or POP (MessageQueueAssignment.java)."""

    message_queue: MessageQueue | None = None
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentReply(Body, frozen=True, kw_only=True):
    """The queues that the asking member owns; the reply to 400."""

    message_queue_assignments: list[QueueAssignment] | None = None


class MessageRequestModeBody(Body, frozen=True, kw_only=True):
    """How a group consumes a topic, the body of 401 (SetMessageRequestModeRequestBody.java)."""

    topic: str
    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: Int32 = 0


class MessageRequestModes(Body, frozen=True, kw_only=True):
    """The modes by topic and group; the reply to 402."""

    message_request_mode_map: dict[str, dict[str, MessageRequestModeBody]] = {}
