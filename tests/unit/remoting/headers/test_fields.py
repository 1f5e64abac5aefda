"""Typed headers to and from string maps."""

import pytest

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.typed import (
    Header,
    Int32,
    Int64,
    decode_header,
    encode_header,
)


class Sample(Header, frozen=True, kw_only=True):
    """One field of each kind."""

    queue_id: Int32
    offset: Int64 = 0
    is_force: bool | None = None
    topic: str | None = None


def test_numbers_and_booleans_travel_as_text() -> None:
    """Names become camelCase, booleans lower case, None stays at home."""
    sample = Sample(queue_id=-1, offset=2**63 - 1, is_force=True, topic="null")
    fields = {"queueId": "-1", "offset": "9223372036854775807", "isForce": "true", "topic": "null"}
    assert encode_header(sample) == fields
    assert decode_header(Sample, fields) == sample
    assert encode_header(Sample(queue_id=0, is_force=False)) == {
        "queueId": "0",
        "offset": "0",
        "isForce": "false",
    }


def test_unknown_fields_are_ignored() -> None:
    """A 5.x client may add ns, nsd, bname, oway and lo to any request."""
    fields = {"queueId": "1", "bname": "broker-a", "ns": "x", "isForce": "TRUE"}
    assert decode_header(Sample, fields) == Sample(queue_id=1, is_force=True)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "Sample: Object missing required field `queueId`"),
        ({"queueId": ""}, r"Expected `int`, got `str` - at `\$\.queueId`"),
        ({"queueId": "2147483648"}, "queueId"),
        ({"queueId": "0", "offset": "9" * 400}, "offset"),
        ({"queueId": "0", "isForce": "perhaps"}, "isForce"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, str], text: str) -> None:
    """The sender learns which header and which field it was."""
    with pytest.raises(RequestError, match=text) as caught:
        decode_header(Sample, fields)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
