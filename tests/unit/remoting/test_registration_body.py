"""What brokers of all versions register with."""

import base64
import struct
import zlib

import pytest
from support.golden.java import java_bodies, java_text

from aerobee.remoting.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    encode_body,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.remoting.registration_body import decode_register_body, encode_register_body

VERSION = DataVersion(counter=3, state_version=7, timestamp=1700000000000)
FIFO = {"message.type": "FIFO"}
TOPICS = {
    "t": TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=4, attributes=FIFO),
    "t0": TopicConfig(topic_name="t0", read_queue_nums=4, write_queue_nums=4),
}


def header(*, compressed: bool = False, crc: int = 0) -> RegisterBrokerRequest:
    """Return a registration header."""
    return RegisterBrokerRequest(
        broker_name="b",
        broker_addr="a:1",
        cluster_name="c",
        ha_server_addr="a:2",
        broker_id=0,
        compressed=compressed,
        body_crc32=crc,
    )


def sized(data: bytes) -> bytes:
    """Prefix a piece with its length."""
    return struct.pack(">i", len(data)) + data


def table(body: RegisterBrokerBody) -> tuple[DataVersion, dict[str, TopicConfig]]:
    """Return the part of a registration that matters."""
    wrapper = body.topic_config_serialize_wrapper
    return wrapper.data_version, wrapper.topic_config_table


def test_reads_java_s_bodies() -> None:
    """RocketMQ 5.5.0, plain and compressed."""
    plain = java_bodies()["RegisterBrokerBody"]
    assert table(decode_register_body(header(), 513, plain)) == (VERSION, TOPICS)
    packed = base64.b64decode(java_text("RegisterBrokerBodyCompressed"))
    assert table(decode_register_body(header(compressed=True), 513, packed)) == (VERSION, TOPICS)


def test_reads_a_compressed_body_that_claims_to_be_plain() -> None:
    """RocketMQ 5.5.0 says `compressed=false` whatever compressedRegister is."""
    packed = base64.b64decode(java_text("RegisterBrokerBodyCompressed"))
    assert table(decode_register_body(header(), 513, packed)) == (VERSION, TOPICS)


@pytest.mark.parametrize("compressed", [False, True])
def test_reads_what_it_writes(compressed: bool) -> None:
    """Both forms, with a right checksum."""
    data = encode_register_body(TOPICS, VERSION, compressed=compressed)
    crc = zlib.crc32(data) & 0x7FFF_FFFF
    body = decode_register_body(header(compressed=compressed, crc=crc), 513, data)
    assert table(body) == (VERSION, TOPICS)


def test_brokers_before_3_0_11_send_the_bare_table() -> None:
    """Their body has no wrapper around the wrapper."""
    wrapper = TopicConfigSerializeWrapper(topic_config_table=TOPICS, data_version=VERSION)
    data = encode_body(wrapper)
    assert table(decode_register_body(header(), 36, data)) == (VERSION, TOPICS)
    assert table(decode_register_body(header(), 37, data)) == (DataVersion(), {})


@pytest.mark.parametrize("version", [36, 37, 513])
def test_no_body_means_no_topics(version: int) -> None:
    """Slaves and containers register without one."""
    assert decode_register_body(header(), version, b"") == RegisterBrokerBody()


def test_brokers_of_version_4_end_before_the_mappings() -> None:
    """Their topics have no attributes, and nothing follows the filter servers."""
    pieces = sized(b'{"counter":3,"timestamp":5}') + struct.pack(">i", 1)
    pieces += sized(b"old 8 8 6 SINGLE_TAG") + sized(b'["f:1"]')
    data = zlib.compress(pieces)
    body = decode_register_body(header(compressed=True), 399, data)
    assert table(body)[1]["old"].write_queue_nums == 8
    assert body.filter_server_list == ["f:1"]
    with pytest.raises(RequestError, match="cut off at byte"):
        decode_register_body(header(compressed=True), 413, data)


def test_static_topic_mappings_are_kept_as_read() -> None:
    """They come back under their topic, fastjson's keys and all."""
    pieces = sized(b"{}") + struct.pack(">i", 0) + sized(b"[]") + struct.pack(">i", 1)
    pieces += sized(b'{"topic":"s","bname":"b","currIdMap":{0:0}}')
    body = decode_register_body(header(compressed=True), 513, zlib.compress(pieces))
    assert body.topic_config_serialize_wrapper.topic_queue_mapping_info_map == {
        "s": {"topic": "s", "bname": "b", "currIdMap": {"0": 0}}
    }


def test_a_wrong_checksum_is_refused_in_rocketmq_s_words() -> None:
    """The broker sees this text in its log."""
    with pytest.raises(RequestError, match=r"^crc32 not match$"):
        decode_register_body(header(crc=1), 513, b"{}")


@pytest.mark.parametrize(
    ("inflated", "text"),
    [
        (b"", "cut off at byte 0"),
        (struct.pack(">i", -1), "piece of -1 bytes"),
        (struct.pack(">i", 5) + b"{}", "piece of 5 bytes at byte 4 of 6"),
        (sized(b"{}") + struct.pack(">i", 0x7FFF_FFFF), "2147483647 entries in the 0 bytes"),
        (sized(b"{}") + struct.pack(">i", -5), "-5 entries"),
        (sized(b"{}") + struct.pack(">i", 1) + sized(b"t 4 4"), "topic b't 4 4'"),
        (sized(b"{}") + struct.pack(">i", 1) + sized(b"t 4 x 6 S"), "writeQueueNums"),
        (sized(b"{}") + struct.pack(">i", 1) + sized(b"t 4 4 6 S [1]"), "Expected `object`"),
        (sized(b"[]"), "body is no DataVersion"),
        (sized(b"{}") + struct.pack(">i", 0) + sized(b"{}") + bytes(4), "Expected `array`"),
    ],
)
def test_damaged_bodies_are_refused_with_a_reason(inflated: bytes, text: str) -> None:
    """Lengths, counts and texts are checked before they are used."""
    with pytest.raises(RequestError, match=text) as caught:
        decode_register_body(header(compressed=True), 513, zlib.compress(inflated))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_what_is_no_zlib_is_refused() -> None:
    """Garbage, and a bomb that would inflate to a gigabyte."""
    with pytest.raises(RequestError, match="registration body is damaged: zlib"):
        decode_register_body(header(compressed=True), 513, b"garbage")
    bomb = zlib.compressobj()
    data = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(80)) + bomb.flush()
    with pytest.raises(RequestError, match="over 67108864 bytes"):
        decode_register_body(header(compressed=True), 513, data)
