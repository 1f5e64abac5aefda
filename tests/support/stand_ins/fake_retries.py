"""How a fake broker takes back what a group could not handle: it delivers it again at once."""

from typing import TYPE_CHECKING

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers import send
from aerobee.remoting.message.properties import format_properties, parse_properties
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

if TYPE_CHECKING:
    from support.stand_ins.fake_cluster import FakeBroker

routes: Routes["FakeBroker"] = Routes("fake retries")


@routes.on(RequestCode.CONSUMER_SEND_MSG_BACK, send.SendBackRequest)
def give_back(broker: "FakeBroker", request: Request[send.SendBackRequest]) -> Outcome:
    """Put a message to its group's retry topic at once, or to the dead letters."""
    header = request.header
    record = next(
        (each for log in broker.log.values() for each in log if each.position == header.offset),
        None,
    )
    if record is None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"no message at {header.offset}")
    dead = header.delay_level < 0 or record.reconsume_times >= (header.max_reconsume_times or 16)
    topic = f"%DLQ%{header.group}" if dead else f"%RETRY%{header.group}"
    properties = parse_properties(record.properties)
    properties.setdefault("RETRY_TOPIC", record.topic)
    properties.setdefault("ORIGIN_MESSAGE_ID", header.origin_msg_id or "")
    broker.topics.setdefault(topic, 1)
    broker.store(
        topic,
        0,
        record.body,
        format_properties(properties).encode(),
        reconsume_times=record.reconsume_times + 1,
    )
    return Reply()
