"""Names of the messaging conventions of OpenTelemetry, with the part that is RocketMQ's.

They are not stable yet, and the registry moves them; so they stand here, and a test holds them
against the newest package that has them. Those of RocketMQ have lost their prefix meanwhile: as
other instrumentations we keep what we have said until a program asks for the newer ones, by
`messaging`, or `messaging/dup` for both, in OTEL_SEMCONV_STABILITY_OPT_IN.
"""

import os
from collections.abc import Callable
from typing import Any, Final

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
CLIENT_ID: Final = "messaging.client.id"
MESSAGE_ID: Final = "messaging.message.id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_COUNT: Final = "messaging.batch.message_count"
NAMESPACE: Final = "messaging.rocketmq.namespace"
CONSUMPTION_MODEL: Final = "messaging.rocketmq.consumption_model"
MESSAGE_TYPE: Final = "messaging.rocketmq.message.type"
MESSAGE_TAG: Final = "messaging.rocketmq.message.tag"
MESSAGE_KEYS: Final = "messaging.rocketmq.message.keys"
MESSAGE_GROUP: Final = "messaging.rocketmq.message.group"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
DELIVERY_TIMESTAMP: Final = "messaging.rocketmq.message.delivery_timestamp"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

OPERATION_DURATION: Final = "messaging.client.operation.duration"
PROCESS_DURATION: Final = "messaging.process.duration"
SENT_MESSAGES: Final = "messaging.client.sent.messages"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"

Attributes = dict[str, Any]

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
_OLDER: Final = "messaging."
_MOVED: Final = "messaging.rocketmq."


def spelling() -> Callable[[Attributes], Attributes]:
    """Return what spells attributes as the environment wants them; read once, at the start."""
    wanted = {word.strip() for word in os.environ.get(OPT_IN, "").split(",")}
    if "messaging/dup" in wanted:
        return _both
    return _newer if "messaging" in wanted else _as_they_are


def _as_they_are(attributes: Attributes) -> Attributes:
    return attributes


def _newer(attributes: Attributes) -> Attributes:
    return {
        name.removeprefix(_OLDER) if name.startswith(_MOVED) else name: value
        for name, value in attributes.items()
    }


def _both(attributes: Attributes) -> Attributes:
    return {**attributes, **_newer(attributes)}
