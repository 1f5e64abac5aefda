"""Rules of pulls that few clients meet: limits of their own, closed doors, slaves, long walks."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records
from aerobee.storage.reads.reading import Reader


async def ask(peer: RawPeer, request: Command) -> Command:
    """Return the answer to a request; what the broker tells its members comes in between."""
    await peer.send(encode_frame(request))
    while (reply := await peer.read()).opaque != request.opaque or not reply.is_response:
        assert reply.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    return reply


async def fill(broker: Broker, count: int, tag: str = "TagA", body_bytes: int = 10) -> None:
    """Store messages in queue 0 of topic T, in one write to the socket."""
    properties = f"UNIQ_KEY\x01AAAA\x02TAGS\x01{tag}\x02"
    frame = encode_frame(send_command(bytes(body_bytes), properties=properties))
    async with await RawPeer.connect(broker.port) as producer:
        await producer.send(frame * count)
        for _ in range(count):
            assert (await producer.read()).code == ResponseCode.SUCCESS


async def beat(peer: RawPeer, **fields: Any) -> None:
    """Send a heartbeat of group G, client c1."""
    subscription = SubscriptionData(topic="T", sub_string="*", sub_version=1)
    consumer = ConsumerData(group_name="G", subscription_data_set=[subscription], **fields)
    body = encode_body(HeartbeatData(client_id="c1", consumer_data_set=[consumer]))
    reply = await ask(peer, Command(code=RequestCode.HEART_BEAT, body=body, opaque=next_opaque()))
    assert reply.code == ResponseCode.SUCCESS


async def test_a_client_may_wish_for_fewer_bytes(tmp_path: Path) -> None:
    """maxMsgBytes bounds the reply, but one message always comes."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await fill(broker, 5, body_bytes=1000)
        sizes = []
        for wish in (2_700, 200, -1, 1 << 30):
            reply = await peer.request(pull_command(0, maxMsgBytes=wish))
            sizes.append(len(list(iter_records(bytes(reply.body)))))
        assert sizes == [2, 1, 1, 5]


async def test_cold_messages_come_in_smaller_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 messages and 64 KiB from the disk, 32 and 256 KiB from memory."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await fill(broker, 40)
        await fill(broker, 8, body_bytes=20_000)

        async def counts() -> list[int]:
            replies = [await peer.request(pull_command(offset)) for offset in (0, 40)]
            return [len(list(iter_records(bytes(reply.body)))) for reply in replies]

        assert await counts() == [32, 8]
        monkeypatch.setattr(Reader, "in_memory", lambda reader, position: False)
        assert await counts() == [8, 3]


async def test_a_slow_group_is_sent_to_the_slave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With slaveReadEnable the group's configuration says which broker is for slow readers."""
    settings = {"slaveReadEnable": "true"}
    async with (
        running_broker(tmp_path, **settings) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await fill(broker, 3)
        groups = broker.context.tables.groups
        group = groups.find("G")
        assert group is not None
        groups.update(msgspec.structs.replace(group, which_broker_when_consume_slowly=3))
        suggested = []
        for offset in (0, 3):
            reply = await peer.request(pull_command(offset))
            suggested.append(reply.ext["suggestWhichBrokerId"])
        monkeypatch.setattr(Reader, "in_memory", lambda reader, position: False)
        for offset in (0, 3):
            reply = await peer.request(pull_command(offset))
            suggested.append(reply.ext["suggestWhichBrokerId"])
        assert suggested == ["0", "0", "3", "0"]
        await broker.context.changes.update({"slaveReadEnable": "false"})
        reply = await peer.request(pull_command(0))
        assert reply.ext["suggestWhichBrokerId"] == "0"


async def test_lite_pulls_can_be_switched_off(tmp_path: Path) -> None:
    """Plain ones go on."""
    async with (
        running_broker(tmp_path, litePullMessageEnable="false") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await fill(broker, 1)
        lite = msgspec.structs.replace(pull_command(), code=RequestCode.LITE_PULL_MESSAGE)
        reply = await peer.request(lite)
        assert (reply.code, reply.ext["forbiddenType"]) == (ResponseCode.NO_PERMISSION, "1")
        assert (await peer.request(pull_command())).code == ResponseCode.SUCCESS


async def test_pull_consumers_can_be_rejected(tmp_path: Path) -> None:
    """Then members of push groups may pull, and the tools; all others hear code 24."""
    async with (
        running_broker(tmp_path, rejectPullConsumerEnable="true") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await fill(broker, 1)
        reply = await ask(peer, pull_command())
        assert reply.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert "the pull consumer is rejected by server." in (reply.remark or "")
        tools = pull_command(consumerGroup="TOOLS_CONSUMER")
        assert (await ask(peer, tools)).code == ResponseCode.SUCCESS
        await beat(peer, consume_type="CONSUME_PASSIVELY")
        assert (await ask(peer, pull_command())).code == ResponseCode.SUCCESS
        async with await RawPeer.connect(broker.port) as other:
            assert (await ask(other, pull_command())).code == ResponseCode.SUCCESS


async def test_more_than_one_read_can_pass_over_wakes_a_held_pull(tmp_path: Path) -> None:
    """A message that is wanted may lie behind thousands that are not: nobody may sleep on it."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await fill(broker, 1)
        await peer.send(encode_frame(pull_command(1, expression="TagB", suspend_ms=30_000)))
        await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
        batch = [
            encode_frame(send_command(b"x", properties=f"UNIQ_KEY\x01AAAA\x02TAGS\x01{tag}\x02"))
            for tag in ["TagA"] * 1000 + ["TagB"]
        ]
        async with await RawPeer.connect(broker.port) as producer:
            await producer.send(b"".join(batch))
            reply = await peer.read()
            while reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
                at = int(reply.ext["nextBeginOffset"])
                reply = await peer.request(pull_command(at, expression="TagB", suspend_ms=30_000))
        assert reply.code == ResponseCode.SUCCESS
        assert [record.queue_offset for record in iter_records(bytes(reply.body))] == [1001]


async def test_a_broadcasting_client_that_came_through_a_proxy_goes_on(tmp_path: Path) -> None:
    """The broker remembers where its members pull, and sends them there when they change ways."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as proxy:
        await fill(broker, 10)

        def from_proxy(offset: int) -> Command:
            return pull_command(offset, requestSource=1, proxyFrowardClientId="c1")

        first = await ask(proxy, from_proxy(-1))
        assert (first.code, first.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert first.ext["nextBeginOffset"] == "0"
        assert (await ask(proxy, from_proxy(4))).code == ResponseCode.SUCCESS
        again = await ask(proxy, from_proxy(-1))
        assert (again.code, again.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "4")
        async with await RawPeer.connect(broker.port) as client:
            await beat(client, message_model="BROADCASTING", consume_type="CONSUME_PASSIVELY")
            moved = await ask(client, pull_command(0))
            assert (moved.code, moved.ext["nextBeginOffset"]) == (
                ResponseCode.PULL_OFFSET_MOVED,
                "4",
            )
            assert (await ask(client, pull_command(4))).code == ResponseCode.SUCCESS
            assert (await ask(client, pull_command(0))).code == ResponseCode.SUCCESS


async def test_other_request_sources_change_nothing(tmp_path: Path) -> None:
    """A proxy's ordered or streaming pulls are pulls; so are those that say they are an SDK's."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await fill(broker, 2)
        for source in (-1, 0, 2, 99):
            reply = await asyncio.wait_for(peer.request(pull_command(0, requestSource=source)), 5)
            assert reply.code == ResponseCode.SUCCESS
