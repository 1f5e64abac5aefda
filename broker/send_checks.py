"""What a broker looks at before it stores a message, and how it completes it."""

from typing import Any, Final

from aerobee.broker.appending import Message
from aerobee.broker.context import Context
from aerobee.broker.names import RETRY_PREFIX, check_topic
from aerobee.broker.remarks import further_details, topic_text
from aerobee.broker.stored_message import broker_properties
from aerobee.broker.system_topics import SEND_FORBIDDEN
from aerobee.remoting.batch import split_batch
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm, ResponseCode, SysFlag, TopicSysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import SendMessageRequest, SendMessageRequestV2
from aerobee.remoting.message_id import UniqueIds
from aerobee.remoting.net.routes import Request
from aerobee.remoting.properties import (
    PROPERTIES_BYTES_MAX,
    Property,
    format_properties,
    parse_properties,
)

TIMER_PROPERTIES: Final = (
    Property.TIMER_DELAY_SEC,
    Property.TIMER_DELAY_MS,
    Property.TIMER_DELIVER_MS,
)

AnySend = SendMessageRequest | SendMessageRequestV2

_unique_ids = UniqueIds()


def check(ctx: Context, request: Request[Any], header: AnySend) -> TopicConfig:
    """Run AbstractSendMessageProcessor's checks in its order; return the topic, made if need be."""
    settings = ctx.settings
    if ctx.now_ms() < settings.start_accept_send_request_time_stamp:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"broker unable to service, until {settings.start_accept_send_request_time_stamp}",
        )
    if not settings.broker_permission & Perm.WRITE and ctx.topics.is_order_topic(header.topic):
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{settings.broker_ip1}] sending message is forbidden",
        )
    check_topic(header.topic)
    if header.topic in SEND_FORBIDDEN:
        raise RequestError(
            ResponseCode.NO_PERMISSION, f"Sending message to topic[{header.topic}] is forbidden."
        )
    topic = ctx.topics.get(header.topic) or _create_topic(ctx, header)
    if header.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{header.queue_id}] is illegal, {topic_text(topic)} "
            f"Producer: {request.connection.remote}",
        )
    return topic


def _create_topic(ctx: Context, header: AnySend) -> TopicConfig:
    """Make the topic of a first message, if the broker is allowed to."""
    sys_flag = 0
    if header.unit_mode:
        retry = header.topic.startswith(RETRY_PREFIX)
        sys_flag = TopicSysFlag.UNIT_SUB if retry else TopicSysFlag.UNIT
    topic = ctx.topics.create_on_send(
        header.topic, header.default_topic, header.default_topic_queue_nums, sys_flag
    )
    if topic is None and header.topic.startswith(RETRY_PREFIX):
        topic, _ = ctx.topics.create_for_group(header.topic, 1, topic_sys_flag=sys_flag)
    if topic is None:
        raise RequestError(
            ResponseCode.TOPIC_NOT_EXIST,
            further_details(f"topic[{header.topic}] not exist, apply first please!"),
        )
    return topic


def single_message(ctx: Context, header: AnySend, body: bytes | memoryview) -> Message:
    """Complete one message's properties; raises RequestError for what is not stored."""
    settings = ctx.settings
    properties = parse_properties(header.properties or "")
    if not body or len(body) > settings.max_message_size:
        raise illegal(ctx)
    if Property.INNER_NUM in properties:
        raise illegal(ctx)
    check_unserved(ctx, properties, header.sys_flag)
    properties.pop(Property.POP_CK, None)
    if not properties.get(Property.UNIQ_KEY):
        properties[Property.UNIQ_KEY] = _unique_ids.next()
    properties.update(
        broker_properties(settings.region_id, settings.trace_on, settings.broker_cluster_name)
    )
    text = format_properties(properties)
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise illegal(ctx)
    return header.flag, body, encoded, ctx.appender.tag_hashes.of(text)


def batch_messages(ctx: Context, header: AnySend, body: bytes | memoryview) -> list[Message]:
    """Take a batch body apart; raises RequestError where it is malformed or not allowed."""
    if header.topic.startswith(RETRY_PREFIX):
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"batch request does not support retry group {header.topic}",
        )
    if len(body) > ctx.settings.max_message_size:
        raise illegal(ctx)
    messages: list[Message] = []
    tags_code_of = ctx.appender.tag_hashes.of
    for entry in split_batch(body):
        check_unserved(ctx, parse_properties(entry.properties), header.sys_flag)
        tags_code = tags_code_of(str(entry.properties, "utf-8", "replace"))
        messages.append((entry.flag, entry.body, entry.properties, tags_code))
    if not messages:
        raise illegal(ctx)
    return messages


def check_unserved(ctx: Context, properties: dict[str, str], sys_flag: int) -> None:
    """Refuse, with the reason, the kinds of messages that this broker does not deliver."""
    settings = ctx.settings
    prepared = properties.get(Property.TRAN_MSG, "").lower() == "true"
    if prepared or sys_flag & SysFlag.TRANSACTION_ROLLBACK:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{settings.broker_ip1}] sending transaction message is forbidden",
        )
    level = properties.get(Property.DELAY, "0")
    if level.lstrip("+-").isdecimal() and int(level) > 0:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            "delay levels are not served by this broker: send without DELAY",
        )
    if any(name in properties for name in TIMER_PROPERTIES):
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            "accurate timer message is not enabled, timerWheelEnable is false",
        )


def illegal(ctx: Context) -> RequestError:
    """Refuse with MESSAGE_ILLEGAL in RocketMQ's words, which name both limits."""
    return RequestError(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {ctx.settings.max_message_size}B, "
        "msg properties length limit 32KB.",
    )
