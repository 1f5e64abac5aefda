"""JSON bodies: round trips through both forms, and hostile text."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from aerobee.remoting.bodies import (
    Body,
    ConsumerConnection,
    ConsumerRunningInfo,
    HeartbeatData,
    RegisterBrokerBody,
    ResetOffsetBody,
    SubscriptionGroupConfig,
    TopicRouteData,
    TopicStatsTable,
    decode_body,
    encode_body,
)
from aerobee.remoting.errors import ProtocolError, RequestError
from aerobee.remoting.fastjson import JsonObjectKey, dumps, loads, standardise
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.remoting.registration_body import decode_register_body

TEXT = st.text(max_size=10)
SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
KEY = PLAIN | st.integers(-(2**31), 2**31 - 1) | st.dictionaries(PLAIN, SCALAR).map(JsonObjectKey)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=10,
)
BODY_TYPES: list[type[Body]] = [
    HeartbeatData,
    TopicRouteData,
    RegisterBrokerBody,
    SubscriptionGroupConfig,
    ConsumerConnection,
    ConsumerRunningInfo,
    TopicStatsTable,
    ResetOffsetBody,
]


def readable(value: Any) -> Any:
    """Return what reading gives: integer keys as text, object keys as they are."""
    if isinstance(value, dict):
        return {
            str(key) if isinstance(key, int) else key: readable(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [readable(item) for item in value]
    return value


@given(JSON)
@example({0: {JsonObjectKey({"a": '"}:{'}): [{}, {1: "x"}]}})
def test_loose_json_survives_a_round_trip(value: Any) -> None:
    """Any nesting of ordinary, integer and object keys."""
    assert loads(dumps(value, strict=False)) == readable(value)


@given(JSON)
def test_strict_json_is_json(value: Any) -> None:
    """Another parser reads it, and reading it here gives the same."""
    text = dumps(value, strict=True)
    assert json.loads(text) == loads(text)


@given(JSON)
def test_standard_json_is_not_touched(value: Any) -> None:
    """The pass that quotes odd keys leaves everything else as it was."""
    text = dumps(value, strict=True)
    assert standardise(text) == text


@given(st.text('{}[],:"\\01a- \n', max_size=40) | st.binary(max_size=40).map(repr))
@example("{{{{")
@example('{"a":1,{"b')
@example("{0:{0:{0:")
def test_hostile_text_is_a_value_or_a_protocol_error(text: str) -> None:
    """Whatever the text, reading ends, and in one of two ways."""
    with suppress(ProtocolError):
        loads(text.encode())


@given(st.sampled_from(BODY_TYPES), JSON | st.dictionaries(PLAIN, JSON))
def test_any_value_is_a_body_or_a_refusal(body_type: type[Body], value: Any) -> None:
    """Wrong types anywhere in a body are answered, not stumbled over."""
    try:
        body = decode_body(body_type, dumps(value, strict=False))
    except RequestError:
        return
    assert decode_body(body_type, encode_body(body, strict=False)) == body


@given(st.binary(max_size=200), st.booleans(), st.integers(0, 600))
def test_random_registrations_are_refused(data: bytes, compressed: bool, version: int) -> None:
    """In every form, of every version."""
    header = RegisterBrokerRequest(
        broker_name="b",
        broker_addr="a",
        cluster_name="c",
        ha_server_addr="h",
        broker_id=0,
        compressed=compressed,
    )
    with suppress(RequestError):
        decode_register_body(header, version, data)
