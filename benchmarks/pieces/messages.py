"""The message that every micro-benchmark handles, as the Java client 5.5.0 writes it."""

from typing import Final

from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Codec, Command, Language
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch

TOPIC: Final = "BenchTopic"
QUEUES: Final = 4


_KEY_PART: Final = "18B4AAC2"  # of each unique key, the counter of the client's start


class Renewed:
    """Frames that come again and again, with other unique keys each time."""

    def __init__(self, data: bytes) -> None:
        self._parts = data.split(_KEY_PART.encode())

    def next(self, number: int) -> bytes:
        """Return them as they come in a read."""
        return (b"%08X" % number).join(self._parts)


def properties(number: int) -> str:
    """Return the properties of one message."""
    return (
        f"KEYS\x01Order{number:08d}\x02UNIQ_KEY\x017F0000010A2B{_KEY_PART}{number:012X}\x02"
        f"WAIT\x01true\x02TAGS\x01{'TagA' if number & 1 else 'TagB'}\x02"
    )


def send_command(
    number: int,
    body_bytes: int,
    codec: int = Codec.JSON,
    more: str = "",
    topic: str = TOPIC,
    queue_id: int | None = None,
) -> Command:
    """Return a SEND_MESSAGE_V2 with the fields in the client's order; `more` are properties."""
    ext = {
        "a": "ProducerGroupName",
        "b": topic,
        "c": "TBW102",
        "d": str(QUEUES),
        "e": str(number % QUEUES if queue_id is None else queue_id),
        "f": "0",
        "g": "1795253960874",
        "h": "0",
        "i": properties(number) + more,
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    body = bytes(body_bytes)
    code = RequestCode.SEND_MESSAGE_V2
    return Command(code, ext, body, number, language=Language.JAVA, codec=codec)


def send_frame(number: int, body_bytes: int, more: str = "") -> bytes:
    """Return the same as bytes."""
    return encode_frame(send_command(number, body_bytes, more=more))


def spread_frame(number: int, body_bytes: int, topics: int) -> bytes:
    """Return the same to many topics: to the first queue of each in turn, then to the second."""
    topic, queue_id = f"{TOPIC}{number % topics}", number // topics % QUEUES
    return encode_frame(send_command(number, body_bytes, topic=topic, queue_id=queue_id))


def batch_frame(number: int, body_bytes: int, messages: int, first: int = 0) -> bytes:
    """Return a SEND_BATCH_MESSAGE as bytes, whose messages count from `first`."""
    command = send_command(number, body_bytes)
    ext = command.ext | {"m": "true", "i": properties(number)}
    inner = [
        BatchedMessage(0, bytes(body_bytes), properties(first + each).encode())
        for each in range(messages)
    ]
    code = RequestCode.SEND_BATCH_MESSAGE
    return encode_frame(Command(code, ext, encode_batch(inner), number, language=Language.JAVA))


def pull_frame(
    number: int, queue_id: int, offset: int, messages_max: int, wanted: tuple[str, str]
) -> bytes:
    """Return a PULL_MESSAGE as bytes; `wanted` is the type of an expression and its text."""
    ext = {
        "queueId": str(queue_id),
        "maxMsgBytes": "2147483647",
        "maxMsgNums": str(messages_max),
        "sysFlag": "4",
        "suspendTimeoutMillis": "15000",
        "commitOffset": "0",
        "bname": "broker-a",
        "topic": TOPIC,
        "queueOffset": str(offset),
        "expressionType": wanted[0],
        "subscription": wanted[1],
        "subVersion": "1795253967227",
        "consumerGroup": "ConsumerGroupName",
    }
    return encode_frame(Command(RequestCode.PULL_MESSAGE, ext, b"", number, language=Language.JAVA))
