"""Words to write down questions to a server with; `probe_families` asks them."""

import base64
import json
import struct
from typing import Any, Final

Probe = dict[str, Any]

CLIENT_ID: Final = "127.0.0.1@probe"


def broker(name: str, code: int, body: Any = None, /, **ext: Any) -> Probe:
    """A question to the broker; header fields as keyword arguments."""
    return _probe("broker", name, code, body, ext)


def namesrv(name: str, code: int, body: Any = None, /, **ext: Any) -> Probe:
    """A question to the nameserver; header fields as keyword arguments."""
    return _probe("namesrv", name, code, body, ext)


def _probe(to: str, name: str, code: int, body: Any, ext: dict[str, Any]) -> Probe:
    fields = {key: _text(value) for key, value in ext.items() if value is not None}
    probe: Probe = {"name": name, "to": to, "code": code, "ext": fields}
    if body is not None:
        probe["body"] = body
    return probe


def variants(
    word: str, code: int, usual: dict[str, Any], changes: dict[str, dict[str, Any]]
) -> list[Probe]:
    """The same question to the broker with other fields changed each time; None leaves one out."""
    return [broker(f"{word}: {name}", code, **(usual | change)) for name, change in changes.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def topic(name: str, queues: int = 4, perm: int = 6, **changes: Any) -> Probe:
    """Create a topic (17)."""
    fields: dict[str, Any] = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return broker(f"create topic {name[:40]!r} {changes or ''}", 17, **(fields | changes))


def group(name: str, **changes: Any) -> Probe:
    """Create a subscription group (200)."""
    fields = {"groupName": name, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    return broker(f"create group {name[:40]!r}", 200, json.dumps(fields | changes))


def send(name: str, body: Any = "probe", code: int = 310, **changes: Any) -> Probe:
    """Send a message with the short names of V2, or the long ones for code 10."""
    fields: dict[str, Any] = {
        "a": "probe-producer",
        "b": "probe",
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1700000000000,
        "h": 0,
        "i": "TAGS\x01TagA\x02",
        "j": 0,
        "k": False,
        "l": 16,
        "m": False,
    }
    return broker(f"send: {name}", code, body, **(fields | changes))


def send_v1(name: str, **changes: Any) -> Probe:
    """Send a message with the long names of V1 (10)."""
    fields: dict[str, Any] = {
        "producerGroup": "probe-producer",
        "topic": "probe",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 1700000000000,
        "flag": 0,
    }
    return broker(f"send: {name}", 10, "probe", **(fields | changes))


def pull(name: str, code: int = 11, **changes: Any) -> Probe:
    """Pull without suspending, the subscription in the request."""
    fields: dict[str, Any] = {
        "consumerGroup": "probe-group",
        "topic": "probe",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return broker(f"pull: {name}", code, **(fields | changes))


def heartbeat(name: str, **consumer: Any) -> Probe:
    """A heartbeat of one consumer (34)."""
    data = {
        "clientID": CLIENT_ID,
        "producerDataSet": [{"groupName": "probe-producer"}],
        "consumerDataSet": [
            {
                "groupName": "probe-live",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": [
                    {
                        "topic": "probe",
                        "subString": "*",
                        "subVersion": 10,
                        "classFilterMode": False,
                        "tagsSet": [],
                        "codeSet": [],
                        "expressionType": "TAG",
                    }
                ],
                "unitMode": False,
            }
            | consumer
        ],
    }
    return broker(f"heartbeat: {name}", 34, json.dumps(data))


def batch_body(*bodies: bytes, properties: bytes = b"") -> dict[str, str]:
    """The body of a batch (MessageDecoder.encodeMessages)."""
    parts = []
    for body in bodies:
        rest = struct.pack(">iiii", 0, 0, 0, len(body)) + body
        rest += struct.pack(">h", len(properties)) + properties
        parts.append(struct.pack(">i", len(rest) + 4) + rest)
    return {"base64": base64.b64encode(b"".join(parts)).decode()}
