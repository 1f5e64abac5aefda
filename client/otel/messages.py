"""What spans say of messages, and the context that travels among a message's properties."""

from collections.abc import Sequence
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from aerobee.client.errors import InvalidMessage
from aerobee.client.hooks import ConsumeContext, SettleContext
from aerobee.client.message import Message, MessageQueue
from aerobee.client.otel import attributes as names
from aerobee.client.otel.attributes import Attributes
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.message.properties import Property

_TIMED: Final = (Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_MS, Property.TIMER_DELAY_SEC)
BAGGAGE: Final = "baggage"  # a word that programs may use for something else
_DIGITS_MAX: Final = 15  # of a number that is believed: with 1000 times it a 64-bit one
_ID_CHARS: Final = 32  # of the id that a message gets later


class CarryingMessage(Message):
    """A message with a context among its properties, in place of `original`, the user's own."""

    original: Message | None = None


def carry(message: Message, context: Context) -> Message:
    """Return a message that carries a context; the user's own message is left as it is.

    One that carries a context already keeps it, even a damaged one, and so does one whose
    properties would become too long. What else a program calls `baggage` stays, too.
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    properties = message.properties
    added = {
        name: value
        for name, value in carrier.items()
        if name and value and not (name == BAGGAGE and name in properties)
    }
    if not added or not added.keys().isdisjoint(properties):
        return message
    fields = {name: getattr(message, name) for name in Message.__struct_fields__}
    fields["properties"] = {**properties, **added}
    made = CarryingMessage(**fields, original=message)
    try:
        made.wire_properties("0" * _ID_CHARS)
    except InvalidMessage:
        return message
    return made


def own_message(message: Message) -> Message:
    """Return the message that the user gave."""
    if isinstance(message, CarryingMessage) and message.original is not None:
        return message.original
    return message


def users_link(message: Message) -> trace.Link | None:
    """Return a link to the context that the user has put into a message, if any."""
    return _link(message.properties)


def sender_context(message: ReceivedMessage) -> trace.SpanContext | None:
    """Return the context that a message came with, None without a sound one."""
    link = _link(message.properties)
    return None if link is None else link.context


def received_context(message: ReceivedMessage) -> Context:
    """Return all that a message came with: its sender's context, and the baggage."""
    return propagate.extract(message.properties, Context())


def _link(properties: dict[str, str]) -> trace.Link | None:
    context = trace.get_current_span(propagate.extract(properties, Context())).get_span_context()
    return trace.Link(context) if context.is_valid else None


def address_attributes(address: str) -> Attributes:
    """Say which broker it is, by "ip:port"."""
    host, _, port = address.rpartition(":")
    said: Attributes = {names.SERVER_ADDRESS: host.strip("[]")}
    if port.isascii() and port.isdecimal() and len(port) <= 5:
        said[names.SERVER_PORT] = int(port)
    return said


def topic_attributes(operation: str, kind: str, topic: str) -> Attributes:
    """Say what is done to a topic."""
    return {
        names.SYSTEM: "rocketmq",
        names.OPERATION_NAME: operation,
        names.OPERATION_TYPE: kind,
        names.DESTINATION: topic,
        names.NAMESPACE: "",
    }


def queue_attributes(operation: str, kind: str, queue: MessageQueue) -> Attributes:
    """Say what is done to a queue of a topic."""
    said = topic_attributes(operation, kind, queue.topic)
    said[names.PARTITION] = str(queue.queue_id)
    return said


def client_attributes(client_id: str) -> Attributes:
    """Say which client it is, as brokers know it."""
    return {names.CLIENT_ID: client_id} if client_id else {}


def consumer_attributes(context: ConsumeContext | SettleContext) -> Attributes:
    """Say whose messages they are, and whether every member of the group gets them."""
    return {
        names.CONSUMER_GROUP: context.group,
        names.CONSUMPTION_MODEL: "broadcasting" if context.broadcasts else "clustering",
        **client_attributes(context.client_id),
    }


def sent_attributes(messages: Sequence[Message], *, half: bool = False) -> Attributes:
    """Say what is sent; of several what counts for all of them."""
    if len(messages) != 1:
        return {names.BATCH_COUNT: len(messages)}
    message = messages[0]
    properties = message.properties
    keys = message.keys.split() if isinstance(message.keys, str) else list(message.keys)
    said = _message_attributes(message.tags, keys, properties)
    said[names.BODY_SIZE] = len(message.body)
    if message.delay_level:
        said[names.DELAY_LEVEL] = message.delay_level
    if names.DELIVERY_TIMESTAMP not in said and (wait_ms := _wait_ms(properties)) is not None:
        said[names.DELIVERY_TIMESTAMP] = wall_clock_ms() + wait_ms
    delayed = bool(message.delay_level)
    said[names.MESSAGE_TYPE] = _type(properties, transaction=half, delayed=delayed)
    return said


def received_attributes(messages: Sequence[ReceivedMessage]) -> Attributes:
    """Say what has come; of several what counts for all of them."""
    if len(messages) != 1:
        return {names.BATCH_COUNT: len(messages)}
    message = messages[0]
    said = _message_attributes(message.tags, message.keys, message.properties)
    said[names.BODY_SIZE] = len(message.body)
    said[names.MESSAGE_ID] = message.message_id
    transaction = bool(message.sys_flag & SysFlag.TRANSACTION_ROLLBACK)  # the mask of all states
    said[names.MESSAGE_TYPE] = _type(message.properties, transaction=transaction)
    return said


def _message_attributes(
    tags: str | None, keys: Sequence[str], properties: dict[str, str]
) -> Attributes:
    said: Attributes = {}
    if tags:
        said[names.MESSAGE_TAG] = tags
    if keys:
        said[names.MESSAGE_KEYS] = tuple(keys)
    if group := properties.get(Property.SHARDING_KEY):
        said[names.MESSAGE_GROUP] = group
    if (level := _number(properties, Property.DELAY)) is not None:
        said[names.DELAY_LEVEL] = level
    if (due := _number(properties, Property.TIMER_DELIVER_MS)) is not None:
        said[names.DELIVERY_TIMESTAMP] = due
    return said


def _wait_ms(properties: dict[str, str]) -> int | None:
    if (wait_ms := _number(properties, Property.TIMER_DELAY_MS)) is not None:
        return wait_ms
    wait_s = _number(properties, Property.TIMER_DELAY_SEC)
    return None if wait_s is None else wait_s * 1000


def _number(properties: dict[str, str], name: str) -> int | None:
    digits = properties.get(name, "")
    if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX:
        return int(digits)
    return None


def _type(properties: dict[str, str], *, transaction: bool, delayed: bool = False) -> str:
    if transaction:
        return "transaction"
    if delayed or Property.DELAY in properties or any(name in properties for name in _TIMED):
        return "delay"
    return "fifo" if Property.SHARDING_KEY in properties else "normal"
