"""How a fake broker treats messages with a time: it stores them, and takes them back."""

import base64
from typing import TYPE_CHECKING

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.recall import RecallMessageReply, RecallMessageRequest
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.net.routes import Outcome, Request, Routes

if TYPE_CHECKING:
    from support.stand_ins.fake_cluster import FakeBroker

routes: Routes["FakeBroker"] = Routes("fake timers")


def handle_for(broker: "FakeBroker", topic: str, properties: str | None) -> str | None:
    """Return the handle of a message that has a time, by which it is taken back."""
    found = parse_properties(properties or "")
    if not any(name.startswith("TIMER_") for name in found):
        return None
    words = f"v1 {topic} {broker.name} 1700000000001 {found['UNIQ_KEY']}"
    return base64.urlsafe_b64encode(words.encode()).decode()


@routes.on(RequestCode.RECALL_MESSAGE, RecallMessageRequest)
def recall(broker: "FakeBroker", request: Request[RecallMessageRequest]) -> Outcome:
    """Take a message out of its queue, if it is there."""
    words = base64.urlsafe_b64decode(request.header.recall_handle).decode().split()
    for (topic, _), records in broker.log.items():
        for record in records:
            if topic == words[1] and words[4].encode() in record.properties:
                records.remove(record)
                return RecallMessageReply(msg_id=words[4])
    raise RequestError(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")
