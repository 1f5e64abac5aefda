"""Sends through a real socket: what is stored, what is answered, what is refused and how."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command

from aerobee.broker.app import Broker
from aerobee.broker.front.connection import BrokerConnection
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_ONEWAY, Codec
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, iter_records
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.log.segment import Segment


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that makes topics."""
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
async def peer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A client that has sent one message to topic T, which is therefore known and checked."""
    async with await RawPeer.connect(broker.port) as connected:
        assert (await connected.request(send_command())).code == ResponseCode.SUCCESS
        yield connected


async def stored(peer: RawPeer, offset: int, queue_id: int = 0) -> list[Record]:
    """Return the messages of T from `offset` on, as a pull brings them."""
    reply = await peer.request(pull_command(offset, queue_id=queue_id))
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return list(iter_records(bytes(reply.body)))


async def test_a_first_message_makes_its_topic_and_is_answered(broker: Broker) -> None:
    """The reply names the message by host and position, queue, offset and unique key."""
    async with await RawPeer.connect(broker.port) as peer:
        reply = await peer.request(send_command(queue_id=2))
    assert reply.code == ResponseCode.SUCCESS
    assert reply.ext == {
        "msgId": f"7F000001{broker.port:08X}{0:016X}",
        "queueId": "2",
        "queueOffset": "0",
        "transactionId": "AAAA0001",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    topic = broker.context.tables.topics.get("T")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (4, 4, 6)


PROPERTIES = [
    "UNIQ_KEY\x01AAAA\x02TAGS\x01TagA\x02",
    "TAGS\x01TagA\x02UNIQ_KEY\x01AAAA\x02",
    "KEYS\x01k1 k2\x02UNIQ_KEY\x01AAAA\x02WAIT\x01true\x02TAGS\x01TagA",  # no last separator
    "UNIQ_KEY\x01AAAA\x02",
    "UNIQ_KEY\x01AAAA\x02MY_TAGS\x01no\x02",
    "MY_TAGS\x01no\x02UNIQ_KEY\x01AAAA\x02TAGS\x01TagB\x02",
    "TAGS\x01Schlüssel😀\x02UNIQ_KEY\x01AAAA\x02",
    'UNIQ_KEY\x01A"A\x02TAGS\x01TagA\x02',  # no JSON may break on it
    "TAGS\x01TagA\x02",  # the broker adds a unique key
    "",
    "UNIQ_KEY\x01AAAA\x02TAGS\x01TagA\x02POP_CK\x01gone\x02",
    "UNIQ_KEY\x01AAAA\x02NOTE\x01MODEL TRAN_ DELIGHT\x02TAGS\x01TagA\x02",
]


@pytest.mark.parametrize("properties", PROPERTIES)
async def test_properties_are_stored_and_tags_hashed(
    broker: Broker, peer: RawPeer, properties: str
) -> None:
    """Whatever the order of properties, they are kept, and the queue knows the tag's hash."""
    reply = await peer.request(send_command(b"body", properties=properties))
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    (record,) = await stored(peer, 1)
    given, kept = parse_properties(properties), parse_properties(record.properties)
    given.pop("POP_CK", None)
    added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    unique_key = given.get("UNIQ_KEY") or kept["UNIQ_KEY"]
    assert kept == {**given, **added, "UNIQ_KEY": unique_key}
    assert reply.ext["transactionId"] == unique_key
    queue = broker.store.find_queue("T", 0)
    assert queue is not None
    tag = given.get("TAGS")
    assert queue.entry(1)[2] == (java_string_hash(tag) if tag else 0)


async def test_both_paths_store_the_same_record_and_answer_alike(
    broker: Broker, peer: RawPeer
) -> None:
    """With a hook every send takes the checked path; nobody can tell from what comes out."""
    fast = await peer.request(send_command(b"same"))
    assert broker.context.writing.queues.fast
    events: list[int] = []
    broker.hooks.add(after_send=lambda event: events.append(event.queue_offset))
    checked = await peer.request(send_command(b"same"))
    assert events == [2]
    first, second = await stored(peer, 1)
    assert set(fast.ext) == set(checked.ext)
    for name in ("MSG_REGION", "TRACE_ON", "queueId", "transactionId"):
        assert fast.ext[name] == checked.ext[name]
    differ = {"position", "queue_offset", "store_timestamp"}
    left, right = (
        {key: value for key, value in msgspec.structs.asdict(record).items() if key not in differ}
        for record in (first, second)
    )
    left["properties"] = parse_properties(first.properties)
    right["properties"] = parse_properties(second.properties)
    assert left == right
    assert second.position == first.position + first.total_size


async def test_record_fields_come_from_the_request(broker: Broker, peer: RawPeer) -> None:
    """Flags, times and hosts are kept as the producer and the broker know them."""
    await peer.request(send_command(b"body", f="1", h="42", g="1234567890123"))
    (record,) = await stored(peer, 1)
    host, port = peer.writer.get_extra_info("sockname")[:2]
    assert (record.flag, record.sys_flag, record.born_timestamp) == (42, 1, 1234567890123)
    assert record.born_host == (host, port)
    assert record.store_host == ("127.0.0.1", broker.port)
    assert record.store_timestamp >= 1_700_000_000_000


async def test_a_one_way_message_is_stored_and_not_answered(peer: RawPeer) -> None:
    """The next reply on the connection belongs to the next request."""
    command = send_command(b"oneway")
    await peer.send(encode_frame(msgspec.structs.replace(command, flag=FLAG_ONEWAY)))
    (record,) = await stored(peer, 1)
    assert record.body == b"oneway"


@pytest.mark.parametrize("codec", [Codec.ROCKETMQ, Codec.MSGPACK])
async def test_other_header_codecs_are_answered_in_kind(peer: RawPeer, codec: int) -> None:
    """A reply uses the codec of its request, for sends and for pulls."""
    reply = await peer.request(msgspec.structs.replace(send_command(b"other"), codec=codec))
    assert (reply.code, reply.codec) == (ResponseCode.SUCCESS, codec)
    assert reply.ext["queueOffset"] == "1"
    pulled = await peer.request(msgspec.structs.replace(pull_command(1), codec=codec))
    assert (pulled.code, pulled.codec) == (ResponseCode.SUCCESS, codec)
    assert [record.body for record in iter_records(bytes(pulled.body))] == [b"other"]


async def test_the_header_with_long_names_is_understood(peer: RawPeer) -> None:
    """SEND_MESSAGE (10) is what very old clients use."""
    command = send_command(code=RequestCode.SEND_MESSAGE)
    names = {
        "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
        "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    }  # fmt: skip
    ext = {names[key]: value for key, value in command.ext.items() if key in names}
    reply = await peer.request(msgspec.structs.replace(command, ext=ext))
    assert (reply.code, reply.ext["queueOffset"]) == (ResponseCode.SUCCESS, "1")


async def test_a_negative_queue_means_any(peer: RawPeer) -> None:
    """The broker picks a queue of the topic."""
    reply = await peer.request(send_command(queue_id=-1))
    assert reply.code == ResponseCode.SUCCESS
    assert 0 <= int(reply.ext["queueId"]) < 4


REFUSALS = [
    ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER, "request queueId[4] is illegal"),
    ({"topic": "no space"}, ResponseCode.INVALID_PARAMETER, "illegal characters"),
    ({"topic": "x" * 128}, ResponseCode.INVALID_PARAMETER, "longer than topic max length"),
    ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "is forbidden"),
    ({"topic": "New", "c": "NoModel"}, ResponseCode.TOPIC_NOT_EXIST, "apply first please!"),
    ({"body": b""}, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    ({"body": bytes(4 << 20 | 1)}, ResponseCode.MESSAGE_ILLEGAL, "body length limit 4194304B"),
    ({"properties": "A\x01" + "x" * 32768}, ResponseCode.MESSAGE_ILLEGAL, "limit 32KB"),
    ({"e": "one"}, ResponseCode.SYSTEM_ERROR, "$.e"),
    ({"h": str(2**31)}, ResponseCode.SYSTEM_ERROR, "$.h"),
    ({"f": "4"}, ResponseCode.NO_PERMISSION, "sending transaction message is forbidden"),
    ({"f": "8", "properties": "TRAN_MSG\x01true\x02"}, ResponseCode.NO_PERMISSION, "transaction"),
    ({"properties": "DELAY\x01soon\x02"}, ResponseCode.MESSAGE_ILLEGAL, "a delay level"),
    ({"properties": "DELAY\x013000000000\x02"}, ResponseCode.MESSAGE_ILLEGAL, "a delay level"),
    ({"properties": "TIMER_DELAY_SEC\x01x\x02"}, ResponseCode.MESSAGE_ILLEGAL, "timer"),
    ({"properties": "INNER_NUM\x013\x02"}, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    ({"f": "128"}, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
]


@pytest.mark.parametrize(("change", "code", "remark"), REFUSALS)
async def test_what_cannot_be_stored_is_refused_with_code_and_reason(
    peer: RawPeer, change: dict[str, str], code: int, remark: str
) -> None:
    """The connection stays, and the next message is stored as if nothing had happened."""
    reply = await peer.request(send_command(**change))  # type: ignore[arg-type]
    assert reply.code == code, reply.remark
    assert remark in (reply.remark or "")
    assert (await peer.request(send_command())).ext["queueOffset"] == "1"


async def test_a_missing_required_field_is_named(peer: RawPeer) -> None:
    """Without its producer group a send fails, on the fast path's topics too."""
    command = send_command()
    del command.ext["a"]
    reply = await peer.request(command)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "`a`" in (reply.remark or "")


async def test_a_batch_gets_offsets_and_ids_in_order(peer: RawPeer) -> None:
    """Messages of a batch follow each other; their properties stay as they came."""
    messages = [
        BatchedMessage(flag=n, body=b"m%d" % n, properties=b"UNIQ_KEY\x01K%d\x02TAGS\x01T\x02" % n)
        for n in range(3)
    ]
    command = send_command(
        encode_batch(messages), code=RequestCode.SEND_BATCH_MESSAGE, properties="", m="true"
    )
    reply = await peer.request(command)
    assert (reply.code, reply.ext["queueOffset"]) == (ResponseCode.SUCCESS, "1")
    records = await stored(peer, 1)
    assert [(r.body, r.flag, r.queue_offset) for r in records] == [
        (b"m0", 0, 1), (b"m1", 1, 2), (b"m2", 2, 3),
    ]  # fmt: skip
    assert [r.properties for r in records] == [m.properties for m in messages]
    ids = reply.ext["msgId"].split(",")
    assert [int(one[-16:], 16) for one in ids] == [r.position for r in records]
    assert "transactionId" not in reply.ext


@pytest.mark.parametrize("cut", [1, 3, 19, 21])
async def test_a_damaged_batch_is_refused_whole(peer: RawPeer, cut: int) -> None:
    """Nothing of a batch is stored when a part of it makes no sense."""
    whole = encode_batch([BatchedMessage(flag=0, body=b"abc", properties=b"")] * 2)
    command = send_command(
        whole[:-cut], code=RequestCode.SEND_BATCH_MESSAGE, properties="", m="true"
    )
    reply = await peer.request(command)
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert (await peer.request(send_command())).ext["queueOffset"] == "1"


async def test_a_changed_topic_is_checked_anew(broker: Broker, peer: RawPeer) -> None:
    """Fewer queues take effect at once, although the topic had passed the checks before."""
    topic = broker.context.tables.topics.get("T")
    assert topic is not None
    fewer = msgspec.structs.replace(topic, read_queue_nums=1, write_queue_nums=1)
    broker.context.tables.topics.update(fewer)
    reply = await peer.request(send_command(queue_id=1))
    assert reply.code == ResponseCode.INVALID_PARAMETER


async def test_a_deleted_topic_is_gone_for_senders(broker: Broker, peer: RawPeer) -> None:
    """A deleted topic is made again only if the sender's model allows it."""
    delete = send_command(code=RequestCode.DELETE_TOPIC_IN_BROKER)
    reply = await peer.request(msgspec.structs.replace(delete, ext={"topic": "T"}))
    assert reply.code == ResponseCode.SUCCESS
    assert (await peer.request(send_command(c="NoModel"))).code == ResponseCode.TOPIC_NOT_EXIST


async def test_acknowledgements_wait_for_the_disk_with_sync_flush(tmp_path: Path) -> None:
    """With SYNC_FLUSH a reply means that the log was synced up to that message."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        for _ in range(3):
            reply = await peer.request(send_command())
            assert reply.code == ResponseCode.SUCCESS
            assert broker.store.commit_log.flushed_position == broker.store.commit_log.position


async def test_a_slow_disk_is_told_with_the_message_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLUSH_DISK_TIMEOUT carries where the message is, for the fast and the checked path."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        monkeypatch.setattr(broker.store.flusher, "request", lambda position, done: done(False))
        for offset in range(2):
            reply = await peer.request(send_command())
            assert reply.code == ResponseCode.FLUSH_DISK_TIMEOUT
            assert reply.ext["queueOffset"] == str(offset)


async def test_an_unwritable_log_is_told_and_reads_go_on(broker: Broker, peer: RawPeer) -> None:
    """SERVICE_NOT_AVAILABLE says why; what was stored can still be pulled."""
    broker.store.commit_log.refuse("the disk has burnt")
    reply = await peer.request(send_command())
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the disk has burnt" in (reply.remark or "")
    assert len(await stored(peer, 0)) == 1


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
async def test_the_fast_path_serves_both_of_its_codecs(
    broker: Broker, peer: RawPeer, monkeypatch: pytest.MonkeyPatch, codec: int
) -> None:
    """Plain sends, batches and pulls with JSON or msgpack headers never need the checked path."""

    def fail(*_: object) -> None:
        raise AssertionError("the checked path was taken")

    monkeypatch.setattr(BrokerConnection, "_checked", fail)
    batch = encode_batch([BatchedMessage(flag=0, body=b"b", properties=b"")] * 2)
    for command in (
        send_command(b"one"),
        send_command(batch, code=RequestCode.SEND_BATCH_MESSAGE, properties="", m="true"),
    ):
        reply = await peer.request(msgspec.structs.replace(command, codec=codec))
        assert (reply.code, reply.codec) == (ResponseCode.SUCCESS, codec)
        assert reply.ext["msgId"]
    pulled = await peer.request(msgspec.structs.replace(pull_command(1), codec=codec))
    assert [bytes(r.body) for r in iter_records(bytes(pulled.body))] == [b"one", b"b", b"b"]


@pytest.mark.parametrize("count", [7, 8, 9, 16, 20])
async def test_no_number_of_frames_in_one_read_stops_a_connection(
    tmp_path: Path, count: int
) -> None:
    """After a turn's worth of frames, no more and no less, the connection is read again."""
    async with (
        running_broker(tmp_path, framesPerTurnMax="8") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        for _ in range(2):
            await peer.send(b"".join(encode_frame(send_command()) for _ in range(count)))
            replies = [await peer.read() for _ in range(count)]
            assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}


async def test_a_slow_disk_is_told_in_msgpack_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledgements that waited in vain keep their codec and their fields."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        monkeypatch.setattr(broker.store.flusher, "request", lambda position, done: done(False))
        reply = await peer.request(msgspec.structs.replace(send_command(), codec=Codec.MSGPACK))
        assert (reply.code, reply.codec) == (ResponseCode.FLUSH_DISK_TIMEOUT, Codec.MSGPACK)
        assert reply.ext["queueOffset"] == "1"


def input_output_error(*_: object) -> None:
    """Fail as a write to a broken disk does."""
    raise OSError(5, "Input/output error")


async def test_what_a_failed_write_lost_is_never_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write fails while a pull of the same read commits; the send before it is refused."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command(b"kept"))).code == ResponseCode.SUCCESS
        monkeypatch.setattr(Segment, "write", input_output_error)
        send, pull = send_command(b"lost"), pull_command(0)
        await peer.send(encode_frame(send) + encode_frame(pull))
        replies = {reply.opaque: reply for reply in [await peer.read(), await peer.read()]}
        assert replies[send.opaque].code == ResponseCode.SERVICE_NOT_AVAILABLE
        found = [bytes(r.body) for r in iter_records(bytes(replies[pull.opaque].body))]
        assert found == [b"kept"]
        monkeypatch.undo()


async def test_a_failed_write_is_told_on_the_checked_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that needs every check is refused with the same code when it cannot be written."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command(b"kept"))).code == ResponseCode.SUCCESS
        monkeypatch.setattr(Segment, "write", input_output_error)
        reply = await peer.request(send_command(b"lost", properties=""))
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE, reply.remark
        monkeypatch.undo()
