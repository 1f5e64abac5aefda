"""The headers of every family: their names on the wire."""

import importlib
import pkgutil

import pytest

from aerobee.remoting import headers
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.heartbeat import HeartbeatReply, UnregisterClientRequest
from aerobee.remoting.headers.offsets import MaxOffsetRequest, ResetOffsetRequest
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.remoting.headers.send import SendMessageRequest, SendMessageRequestV2
from aerobee.remoting.headers.topics import CreateTopicRequest
from aerobee.remoting.headers.typed import Header, decode_header, encode_header

SEND_V2 = {
    "a": "group",
    "b": "topic",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "KEYS\x01k\x02",
    "j": "0",
    "k": "false",
    "l": "16",
    "m": "false",
    "n": "broker-a",
}
"""The fields of a message that the Java client 5.5.0 sends."""


def families() -> list[type[Header]]:
    """Return every header of every family."""
    found = []
    for module in pkgutil.iter_modules(headers.__path__, headers.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Header) and value is not Header:
                found.append(value)
    return found


@pytest.mark.parametrize("header_type", families(), ids=lambda each: each.__name__)
def test_every_header_survives_its_strings(header_type: type[Header]) -> None:
    """With a plausible value in every field, what is written reads back."""
    values = {key: "1" for key in header_type.__struct_encode_fields__}
    header = decode_header(header_type, values)
    assert decode_header(header_type, encode_header(header)) == header
    assert set(encode_header(header)) == set(values)


def test_send_headers_say_the_same_in_both_spellings() -> None:
    """V2 is V1 with letters for names, and the name of the broker."""
    header = decode_header(SendMessageRequestV2, SEND_V2)
    assert encode_header(header) == SEND_V2
    long_names = {name: getattr(header, name) for name in SendMessageRequest.__struct_fields__}
    assert encode_header(SendMessageRequest(**long_names))["maxReconsumeTimes"] == "16"
    assert header.broker_name == "broker-a"


@pytest.mark.parametrize("name", "abcdefgh")
def test_a_send_without_a_required_field_is_refused(name: str) -> None:
    """The eight fields that RocketMQ marks as not null."""
    fields = {key: value for key, value in SEND_V2.items() if key != name}
    with pytest.raises(RequestError, match=f"`{name}`"):
        decode_header(SendMessageRequestV2, fields)


def test_unusual_names_on_the_wire() -> None:
    """Names that camelCase alone does not give."""
    assert encode_header(UnregisterClientRequest(client_id="c")) == {"clientID": "c"}
    assert encode_header(HeartbeatReply()) == {
        "IS_SUPPORT_HEART_BEAT_V2": "true",
        "IS_SUB_CHANGE": "true",
    }
    register = RegisterBrokerRequest(
        broker_name="b", broker_addr="a", cluster_name="c", ha_server_addr="h", broker_id=0
    )
    assert encode_header(register)["bodyCrc32"] == "0"
    assert "proxyFrowardClientId" in PullMessageRequest.__struct_encode_fields__


def test_defaults_that_java_s_headers_have() -> None:
    """Fields that old clients leave out."""
    assert decode_header(MaxOffsetRequest, {"topic": "t", "queueId": "0"}).committed
    reset = decode_header(
        ResetOffsetRequest, {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "true"}
    )
    assert (reset.queue_id, reset.offset) == (-1, None)
    create = decode_header(
        CreateTopicRequest,
        {
            "topic": "t",
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": "4",
            "perm": "6",
        },
    )
    assert (create.order, create.topic_filter_type) == (False, "SINGLE_TAG")
