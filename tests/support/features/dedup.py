"""Topics that store a retry once: made, sent to, and read."""

from typing import Any

from aerobee.broker.app import Broker
from aerobee.broker.features.dedup.feature import Dedup
from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.record import Record, iter_records
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, send_command
from support.waiting import until


def unique_key(number: int) -> str:
    """Return a key as Java's client makes it."""
    return f"7F000001{number:024X}"


def topic_command(topic: str = "T", attributes: str = "", **fields: Any) -> Command:
    """Build the request that makes or changes a topic."""
    ext = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": attributes, **fields,
    }  # fmt: skip
    return Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ext, opaque=next_opaque())


async def watch(peer: RawPeer, topic: str = "T", seconds: int = 60) -> None:
    """Let a topic store a retry once."""
    edit = f"+aerobee.dedup.seconds={seconds}"
    reply = await peer.request(topic_command(topic, edit))
    assert reply.code == ResponseCode.SUCCESS, reply.remark


def send(key: str, body: bytes = b"body", *, more: str = "", **options: Any) -> Command:
    """Build a send of a message with a unique key."""
    return send_command(body, properties=f"UNIQ_KEY\x01{key}\x02{more}", **options)


def batch(keys: list[str], **options: Any) -> Command:
    """Build a batch of messages with these keys, each of which is its body, too."""
    messages = [BatchedMessage(0, key.encode(), f"UNIQ_KEY\x01{key}\x02".encode()) for key in keys]
    code = RequestCode.SEND_BATCH_MESSAGE
    return send_command(
        encode_batch(messages), properties="WAIT\x01true\x02", code=code, m="true", **options
    )


async def request_all(peer: RawPeer, commands: list[Command]) -> list[Command]:
    """Send requests in one write; return their replies in the order of the requests."""
    await peer.send(b"".join(encode_frame(command) for command in commands))
    replies = {reply.opaque: reply for reply in [await peer.read() for _ in commands]}
    return [replies[command.opaque] for command in commands]


async def stored(peer: RawPeer, topic: str = "T", queues: int = 4) -> list[Record]:
    """Return every message of a topic, queue by queue."""
    found: list[Record] = []
    for queue_id in range(queues):
        offset = 0
        while True:
            reply = await peer.request(pull_command(offset, topic=topic, queue_id=queue_id))
            if reply.code != ResponseCode.SUCCESS:
                break
            records = list(iter_records(bytes(reply.body)))
            found += records
            offset += len(records)
    return found


async def known(broker: Broker) -> TopicFirsts:
    """Return what a broker knows, as soon as it knows what the log has."""
    dedup = broker.features.find(Dedup)
    assert dedup is not None
    await until(dedup.firsts.ready.is_set, what="the unique keys to be known")
    return dedup.firsts


def set_clock(broker: Broker, firsts: TopicFirsts, now_ms: int) -> None:
    """Let it be that time wherever messages are stored."""

    def now() -> int:
        return now_ms

    front = broker.context.front
    front.traffic.now_ms = front.fast_traffic.now_ms = firsts.now_ms = now
    broker.context.sends.storing.now_ms = now


async def is_known(peer: RawPeer, key: str, topic: str = "T") -> bool:
    """Send a message; tell whether it was there before. It is afterwards."""
    reply = await peer.request(send(key, topic=topic))
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return "DUPLICATE" in reply.ext
