"""Every member of a broadcasting group gets every message and keeps its own offsets."""

import json
from pathlib import Path

import pytest
from support.consumers import Seen, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    InvalidUse,
    MessageModel,
    MessageQueue,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.group.local_offsets import decode_offsets, encode_offsets
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import ProtocolError


def member_of(
    cluster: FakeCluster,
    handle: object,
    folder: Path,
    *,
    name: str = "",
    consume_from: ConsumeFrom = ConsumeFrom.FIRST,
    timestamp_ms: int | None = None,
    ordered: bool = False,
) -> PushConsumer:
    """Return a member that keeps its offsets below `folder`."""
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(offsets_folder=str(folder), suspend_ms=10, max_reconsume_times=1),
        client=ClientSettings(instance_name=name),
        consume_from=consume_from,
        consume_timestamp_ms=timestamp_ms,
        model=MessageModel.BROADCASTING,
        ordered=ordered,
    )
    member.subscribe("t", handle)  # type: ignore[call-overload]
    return member


async def test_every_member_gets_every_message(cluster: FakeCluster, tmp_path: Path) -> None:
    """All queues belong to all; brokers neither keep nor are asked for offsets."""
    cluster.create("t", 2)
    fill(cluster, "t", 40)
    one, two = Seen(), Seen()
    async with (
        member_of(cluster, one.handle, tmp_path, name="one") as first,
        member_of(cluster, two.handle, tmp_path, name="two") as second,
    ):
        await until(lambda: len(one.bodies) == len(two.bodies) == 40)
        assert len(first.queues()) == len(second.queues()) == 4
        (data,) = cluster.brokers[0].heartbeats[-1].consumer_data_set
        assert data.message_model == "BROADCASTING"
        assert [each.topic for each in data.subscription_data_set] == ["t"]
    assert set(one.bodies.values()) == set(two.bodies.values()) == {1}
    for broker in cluster.brokers:
        assert not broker.committed
        assert not broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)
        assert not broker.requests(RequestCode.UNLOCK_BATCH_MQ)
        assert {command.ext["sysFlag"] for command in broker.requests(11)} == {"2"}


async def test_the_file_is_found_again(cluster: FakeCluster, tmp_path: Path) -> None:
    """In RocketMQ's place and shape, under a client id that is the same after a restart."""
    cluster.create("t", 1)
    fill(cluster, "t", 4)
    seen = Seen()
    member = member_of(cluster, seen.handle, tmp_path)
    async with member:
        client_id = member.client_id
        await until(lambda: len(seen.bodies) == 4)
    assert client_id == "127.0.0.1@DEFAULT"
    path = tmp_path / client_id / "g" / "offsets.json"
    assert path.read_text() == (
        '{"offsetTable":{'
        '{"brokerName":"broker-a","queueId":0,"topic":"t"}:2,'
        '{"brokerName":"broker-b","queueId":0,"topic":"t"}:2}}'
    )
    assert path.with_name("offsets.json.bak").exists()
    fill(cluster, "t", 2)
    again = Seen()
    async with member_of(cluster, again.handle, tmp_path):
        await until(lambda: len(again.messages) == 2)
    assert {message.queue_offset for message in again.messages} == {2}


async def test_a_file_of_rocketmq_is_read(cluster: FakeCluster, tmp_path: Path) -> None:
    """Pretty-printed, with other queues in it, which stay; from the backup where it is damaged."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 5)
    folder = tmp_path / "127.0.0.1@DEFAULT" / "g"
    folder.mkdir(parents=True)
    (folder / "offsets.json").write_text('{\n\t"offsetTable":{{"broker')
    (folder / "offsets.json.bak").write_text(
        '{\n\t"offsetTable":{{\n\t\t"brokerName":"broker-a",\n\t\t"queueId":0,\n\t\t"topic":"t"'
        '\n\t}:3,{\n\t\t"brokerName":"gone",\n\t\t"queueId":7,\n\t\t"topic":"u"\n\t}:9\n\t}\n}'
    )
    seen = Seen()
    async with member_of(cluster, seen.handle, tmp_path):
        await until(lambda: len(seen.messages) == 2)
    assert [message.queue_offset for message in seen.messages] == [3, 4]
    text = (folder / "offsets.json").read_text()
    assert '{"brokerName":"gone","queueId":7,"topic":"u"}:9' in text
    assert '{"brokerName":"broker-a","queueId":0,"topic":"t"}:5' in text
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)  # objects as keys: what fastjson writes and reads


async def test_what_fails_is_dropped(cluster: FakeCluster, tmp_path: Path) -> None:
    """It comes to nobody again, and does not hold the offset."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 5)
    seen = Seen()

    async def handle(message: ReceivedMessage) -> ConsumeResult:
        await seen.handle(message)
        return ConsumeResult.LATER

    member = member_of(cluster, handle, tmp_path)
    async with member:
        await until(lambda: member.statistics().handlers.failed == 5)
    assert set(seen.bodies.values()) == {1}
    assert not cluster.brokers[0].requests(RequestCode.CONSUMER_SEND_MSG_BACK)
    path = tmp_path / "127.0.0.1@DEFAULT" / "g" / "offsets.json"
    assert '"topic":"t"}:5' in path.read_text()


async def test_in_order_it_is_tried_again_here_and_then_dropped(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Without any lock: nobody else could have the queue."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 3)
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> ConsumeResult | None:
        seen.append(message.queue_offset)
        return ConsumeResult.LATER if message.queue_offset == 1 else None

    async with member_of(cluster, handle, tmp_path, ordered=True):
        await until(lambda: 2 in seen)
    assert seen == [0, 1, 1, 2]
    assert not cluster.brokers[0].requests(RequestCode.LOCK_BATCH_MQ)


@pytest.mark.parametrize(
    ("consume_from", "timestamp_ms", "first"),
    [
        (ConsumeFrom.FIRST, None, 0),
        (ConsumeFrom.LAST, None, 10),
        (ConsumeFrom.TIMESTAMP, 1_700_000_000_004, 4),
    ],
)
async def test_a_member_without_file_begins_where_it_says(
    cluster: FakeCluster,
    tmp_path: Path,
    consume_from: ConsumeFrom,
    timestamp_ms: int | None,
    first: int,
) -> None:
    """The first, the next, or the first message of a time."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    seen = Seen()
    member = member_of(
        cluster, seen.handle, tmp_path, consume_from=consume_from, timestamp_ms=timestamp_ms
    )
    async with member:
        await until(lambda: bool(member.queues()))
        fill(cluster, "t", 1)
        await until(lambda: bool(seen.messages))
    assert seen.messages[0].queue_offset == first


async def test_a_moved_offset_is_followed(cluster: FakeCluster, tmp_path: Path) -> None:
    """The broker's offset goes into the file, and the queue is taken again there."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    cluster.brokers[0].first_offset["t", 0] = 1000
    fill(cluster, "t", 2)
    seen = Seen()
    async with member_of(cluster, seen.handle, tmp_path):
        await until(lambda: len(seen.messages) == 2)
    assert seen.messages[0].queue_offset == 1000


async def test_two_members_in_one_process_need_two_names(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """They would write the same file."""
    cluster.create("t", 1)
    async with member_of(cluster, Seen().handle, tmp_path):
        with pytest.raises(InvalidUse, match="another instance_name"):
            await member_of(cluster, Seen().handle, tmp_path).start()


async def test_a_file_that_cannot_be_read_stops_the_queue(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To begin anywhere would skip or repeat messages; the log says what to do."""
    cluster.create("t", 1)
    fill(cluster, "t", 2)
    folder = tmp_path / "127.0.0.1@DEFAULT" / "g"
    folder.mkdir(parents=True)
    (folder / "offsets.json").write_text("no offsets")
    seen = Seen()
    async with member_of(cluster, seen.handle, tmp_path):
        await until(lambda: "Repair or restore one of them" in caplog.text)
    assert not seen.messages


@pytest.mark.parametrize(
    "text",
    [
        # as the Java clients 5.5.0 and 4.9.8 write it
        (
            '{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":7,'
            '\n\t\t\t"topic":"t"'
            "\n\t\t}:123456789012\n\t}\n}"
        ),
        (
            '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":7,\n\t\t\t"topic":"t"'
            "\n\t\t}:123456789012\n\t}\n}"
        ),
        '{"offsetTable":{{"brokerName":"b","queueId":7,"topic":"t"}:123456789012}}',
    ],
)
def test_every_writer_is_read(text: str) -> None:
    """The clients write the same table with different white space."""
    table = decode_offsets(text.encode())
    assert table == {MessageQueue("t", "b", 7): 123456789012}
    assert decode_offsets(encode_offsets(table)) == table


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"offsetTable":[]}', '{"offsetTable":{"a":1}}', '{"offsetTable":{{}:1}}']
)
def test_other_tables_are_refused(text: str) -> None:
    """By an error of ours, so that the backup is looked at."""
    with pytest.raises(ProtocolError):
        decode_offsets(text.encode())
