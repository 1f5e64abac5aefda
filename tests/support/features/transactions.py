"""Half messages, ENDs and checks as a producer's client sends and gets them."""

from collections.abc import Mapping
from typing import Any

from aerobee.broker.app import Broker
from aerobee.broker.features.transactions.feature import Transactions
from aerobee.remoting.bodies import HeartbeatData, ProducerData, encode_body
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.message.record import Record, decode_record
from support.raw_peer import RawPeer
from support.servers.brokers import send_command

COMMIT, ROLLBACK = 8, 12
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "pg"


def half_command(
    body: bytes = b"hello", *, group: str = GROUP, key: str = "", sys_flag: int = 4, **more: str
) -> Command:
    """Build the send of a half message; `topic` and header fields as `send_command` has them."""
    header: dict[str, Any] = {"g": str(wall_clock_ms())} | {
        name: more.pop(name) for name in ("topic", "g", "j", "h") if name in more
    }
    pairs = {
        "UNIQ_KEY": key or body.hex().upper(), "TRAN_MSG": "true", "PGROUP": group, **more
    }  # fmt: skip
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    queue_id = int(header.pop("e", "0"))
    return send_command(
        body, queue_id=queue_id, properties=text, a=group, f=str(sys_flag), **header
    )


def end_command(
    half: Mapping[str, str], outcome: int, *, checked: bool = False, oneway: bool = False,
    **fields: Any,
) -> Command:  # fmt: skip
    """Build the END of a half message by what its sender was told, or by a check's fields."""
    position = int((half.get("offsetMsgId") or half["msgId"])[-16:], 16)
    offset = half.get("queueOffset") or half.get("tranStateTableOffset")
    ext = {
        "topic": "T",
        "producerGroup": GROUP,
        "tranStateTableOffset": offset,
        "commitLogOffset": position,
        "commitOrRollback": outcome,
        "fromTransactionCheck": str(checked).lower(),
        "msgId": half.get("transactionId"),
        "transactionId": half.get("transactionId"),
        "bname": "broker-a",
        **fields,
    }
    return Command(
        code=RequestCode.END_TRANSACTION,
        ext={name: str(value) for name, value in ext.items() if value is not None},
        opaque=next_opaque(),
        flag=2 if oneway else 0,
    )


def producer_beat(group: str = GROUP, client: str = "c") -> Command:
    """Build the heartbeat by which checks find a producer."""
    data = HeartbeatData(client_id=client, producer_data_set=[ProducerData(group_name=group)])
    return Command(code=RequestCode.HEART_BEAT, body=encode_body(data), opaque=next_opaque())


async def begin(peer: RawPeer, body: bytes = b"hello", **more: Any) -> dict[str, str]:
    """Send a half message; return what its sender is told."""
    reply = await peer.request(half_command(body, **more))
    assert reply.code == 0, reply.remark
    return dict(reply.ext)


async def end(peer: RawPeer, half: Mapping[str, str], outcome: int, **more: Any) -> tuple[int, str]:
    """End a transaction and return code and remark of the answer."""
    reply = await peer.request(end_command(half, outcome, **more))
    return reply.code, reply.remark or ""


def records(broker: Broker, topic: str, queue_id: int = 0) -> list[Record]:
    """Return every record of a queue, from the store itself."""
    store = broker.store
    store.commit_log.commit()
    queue = store.find_queue(topic, queue_id)
    if queue is None:
        return []
    found = []
    for offset in range(queue.min_offset, queue.max_offset):
        data = store.record_at(queue.entry(offset)[0], (topic, queue_id, offset))
        assert data is not None
        found.append(decode_record(data))
    return found


def bodies(broker: Broker, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """Return the bodies of a queue's messages."""
    return [record.body for record in records(broker, topic, queue_id)]


def transactions(broker: Broker) -> Transactions:
    """Return the feature of a broker that has it."""
    found = broker.features.find(Transactions)
    assert found is not None
    return found
