"""Sends, pulls and decodes messages over `RawClient`, sharing no code with Aerobee.

The record layout is RocketMQ's CommitLog record (MessageDecoder.java).
"""

import json
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from support.interop.raw_remoting import Answer, RawClient

_MAGIC_V1: Final = 0xDAA320A7
_MAGIC_V2: Final = 0xDAA320AB
_COMPRESSED: Final = 1
_V6_BORN: Final = 16
_V6_STORE: Final = 32
_PULL_FLAGS: Final = 4  # the subscription travels in the request; no suspending, no commit


@dataclass(frozen=True, slots=True)
class RawMessage:
    """One decoded record."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    body: bytes
    properties: dict[str, str]


def create_topic(
    broker: str, topic: str, queues: int = 4, *, perm: int = 6, order: bool = False
) -> None:
    """Create a topic by request code 17."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(perm),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": str(order).lower(),
    }
    with RawClient(broker) as client:
        answer = client.call(17, fields)
    assert answer.code == 0, answer


def create_group(client: RawClient, group: str, retries_max: int = 16) -> None:
    """Create a subscription group with one retry queue by request code 200."""
    config = {
        "groupName": group,
        "retryMaxTimes": retries_max,
        "retryQueueNums": 1,
        "consumeEnable": True,
        "consumeBroadcastEnable": True,
        "consumeFromMinEnable": True,
    }
    answer = client.call(200, body=json.dumps(config).encode())
    assert answer.code == 0, answer


def wait_for_route(namesrv: str, topic: str, seconds: float = 60) -> None:
    """Return once the nameserver knows the topic."""
    deadline = time.monotonic() + seconds
    with RawClient(namesrv) as client:
        while client.call(105, {"topic": topic}).code != 0:
            assert time.monotonic() < deadline, f"no route of {topic} after {seconds} s"
            time.sleep(0.05)


def send(
    client: RawClient,
    topic: str,
    queue_id: int,
    body: bytes,
    properties: dict[str, str] | None = None,
    *,
    sys_flag: int = 0,
) -> Answer:
    """Send one message by request code 310 and return the broker's answer."""
    text = "".join(f"{key}\x01{value}\x02" for key, value in (properties or {}).items())
    fields = {
        "a": "raw-producer",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": str(sys_flag),
        "g": str(int(time.time() * 1000)),
        "h": "0",
        "i": text,
        "j": "0",
        "k": "false",
        "l": "16",
        "m": "false",
        "n": "broker-a",
    }
    return client.call(310, fields, body)


def offset_of(client: RawClient, code: int, topic: str, queue_id: int) -> int:
    """Return the maximum (code 30) or minimum (31) offset of a queue."""
    answer = client.call(code, {"topic": topic, "queueId": str(queue_id)})
    assert answer.code == 0, answer
    return int(answer.ext["offset"])


def wait_for_end(
    client: RawClient, topic: str, queue_id: int, end: int, seconds: float = 60
) -> None:
    """Return once a queue ends there: RocketMQ answers a send a moment before it tells readers."""
    deadline = time.monotonic() + seconds
    fields = {"topic": topic, "queueId": str(queue_id)}
    while (answer := client.call(30, fields)).code != 0 or int(answer.ext["offset"]) < end:
        assert time.monotonic() < deadline, f"{topic} {queue_id} does not reach {end}: {answer}"
        time.sleep(0.05)


def pull(
    client: RawClient, topic: str, queue_id: int, offset: int, expression: str = "*"
) -> Answer:
    """Pull up to 32 messages once, without suspending (request code 11)."""
    fields = {
        "consumerGroup": "raw-consumer",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(_PULL_FLAGS),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": expression,
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return client.call(11, fields)


def read_queue(client: RawClient, topic: str, queue_id: int) -> list[RawMessage]:
    """Pull a queue from its first message to its last."""
    messages: list[RawMessage] = []
    offset = offset_of(client, 31, topic, queue_id)
    end = offset_of(client, 30, topic, queue_id)
    while offset < end:
        answer = pull(client, topic, queue_id, offset)
        assert answer.code in (0, 20, 21), f"{answer.code} {answer.remark} at {offset} of {end}"
        following = int(answer.ext["nextBeginOffset"])
        assert following > offset, f"no progress at {offset} of {end}: {answer.remark}"
        offset = following
        messages.extend(decode_records(answer.body))
    return messages


def decode_records(data: bytes) -> Iterator[RawMessage]:
    """Yield the records of a pull body; a bad magic or checksum is an AssertionError."""
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield decode_record(data[at : at + size])
        at += size


def decode_record(record: bytes) -> RawMessage:
    """Decode one record and check its magic, checksum and lengths."""
    size, magic, crc, queue_id, _flag, queue_offset, position, sys_flag = struct.unpack_from(
        ">iIiiiqqi", record
    )
    assert size == len(record), f"a record of {size} bytes in {len(record)}"
    assert magic in (_MAGIC_V1, _MAGIC_V2), f"magic {magic:#x}"
    at = 48 + (20 if sys_flag & _V6_BORN else 8) + 8 + (20 if sys_flag & _V6_STORE else 8) + 12
    (body_bytes,) = struct.unpack_from(">i", record, at)
    body = record[at + 4 : at + 4 + body_bytes]
    assert zlib.crc32(body) & 0x7FFFFFFF == crc, "the body's checksum does not match"
    at += 4 + body_bytes
    topic_format = ">B" if magic == _MAGIC_V1 else ">h"
    (topic_bytes,) = struct.unpack_from(topic_format, record, at)
    at += struct.calcsize(topic_format)
    topic = record[at : at + topic_bytes].decode()
    at += topic_bytes
    (properties_bytes,) = struct.unpack_from(">h", record, at)
    at += 2
    assert at + properties_bytes == size, "the record's parts do not fill it"
    pairs = record[at:].decode().split("\x02")
    properties = dict(pair.split("\x01", 1) for pair in pairs if pair)
    if sys_flag & _COMPRESSED:
        body = zlib.decompress(body)
    return RawMessage(topic, queue_id, queue_offset, position, body, properties)
