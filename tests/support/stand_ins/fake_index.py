"""How a fake broker finds messages, by the hash of a key or by position, and ends of queues."""

from typing import TYPE_CHECKING

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers import offsets
from aerobee.remoting.headers.query import QueryMessageRequest, ViewMessageRequest
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, encode_record
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

if TYPE_CHECKING:
    from support.stand_ins.fake_cluster import FakeBroker

routes: Routes["FakeBroker"] = Routes("fake index")


@routes.on(RequestCode.QUERY_MESSAGE, QueryMessageRequest)
def query(broker: "FakeBroker", request: Request[QueryMessageRequest]) -> Outcome:
    """Return the newest whose hash and time fit; times are those of whole seconds."""
    header = request.header
    wanted = java_string_hash(f"{header.topic}#{header.key}")
    found = [
        record
        for record in _records(broker)
        if header.begin_timestamp <= record.store_timestamp // 1000 * 1000 <= header.end_timestamp
        and wanted in {java_string_hash(f"{record.topic}#{key}") for key in _keys(record)}
    ]
    if not found:
        raise RequestError(ResponseCode.QUERY_NOT_FOUND, "can not find message")
    newest = sorted(found, key=lambda each: each.position)[-min(header.max_num, broker.found_max) :]
    return Reply(body=b"".join(encode_record(record) for record in newest))


@routes.on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest)
def view(broker: "FakeBroker", request: Request[ViewMessageRequest]) -> Outcome:
    """Return the record at a position."""
    offset = request.header.offset
    for record in _records(broker):
        if record.position == offset:
            return Reply(body=encode_record(record))
    raise RequestError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")


@routes.on(RequestCode.GET_MAX_OFFSET, offsets.MaxOffsetRequest)
def newest_offset(broker: "FakeBroker", request: Request[offsets.MaxOffsetRequest]) -> Outcome:
    """Return one past the newest message."""
    at = request.header.topic, request.header.queue_id
    return offsets.OffsetReply(offset=broker.first_offset[at] + len(broker.log[at]))


@routes.on(RequestCode.GET_MIN_OFFSET, offsets.MinOffsetRequest)
def oldest_offset(broker: "FakeBroker", request: Request[offsets.MinOffsetRequest]) -> Outcome:
    """Return the oldest message's offset."""
    return offsets.OffsetReply(
        offset=broker.first_offset[request.header.topic, request.header.queue_id]
    )


@routes.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, offsets.SearchOffsetRequest)
def offset_at(broker: "FakeBroker", request: Request[offsets.SearchOffsetRequest]) -> Outcome:
    """Return the first offset stored at a time or later."""
    records = broker.log[request.header.topic, request.header.queue_id]
    later = [each for each in records if each.store_timestamp >= request.header.timestamp]
    return offsets.OffsetReply(offset=later[0].queue_offset if later else len(records))


def _records(broker: "FakeBroker") -> list[Record]:
    return [record for records in broker.log.values() for record in records]


def _keys(record: Record) -> list[str]:
    properties = parse_properties(record.properties)
    return [*properties.get("KEYS", "").split(), properties.get("UNIQ_KEY", "")]
