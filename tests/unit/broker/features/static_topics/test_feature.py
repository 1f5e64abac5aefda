"""Static topics over two brokers: sends, pulls, offsets, a remapping, restarts, refusals."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from support.features.static_topics import (
    TOPIC,
    Piece,
    StaticCluster,
    bodies,
    detail,
    records,
    static_cluster,
)
from support.servers.live_broker import live_broker

from aerobee.remoting.bodies import (
    TopicConfigAndQueueMapping,
    TopicRouteData,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command

ROUNDED = 10_000  # where the new stretch begins, as mqadmin rounds it


async def made(cluster: StaticCluster) -> None:
    """Make a topic of two logical queues: 0 on broker a, 1 on broker b."""
    for broker, queues in (("a", {0: [Piece("a", 0)]}), ("b", {1: [Piece("b", 0)]})):
        assert (await cluster.map(broker, 1, queues)).code == 0


async def remapped(cluster: StaticCluster) -> None:
    """Give logical queue 0 from a to b, step by step as MQAdminUtils.remappingStaticTopic."""
    open_ended = {0: [Piece("a", 0), Piece("b", 1, -1)]}
    decided = {0: [Piece("a", 0), Piece("b", 1, ROUNDED)]}
    own = {1: [Piece("b", 0)]}
    for broker, queues in (("b", own | open_ended), ("a", open_ended), ("b", own | decided)):
        reply = await cluster.map(broker, 2, queues)
        assert reply.code == 0, reply.remark


def number(reply: Command) -> int:
    """Return the offset that was answered."""
    assert reply.code == 0, reply.remark
    return int(reply.ext["offset"])


async def test_messages_go_into_the_queue_that_leads(tmp_path: Path) -> None:
    """The answer has the logical queue; the broker that leads another one refuses (501)."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        sent = await cluster.send("b", 1, b"x")
        assert (sent.code, sent.ext["queueId"], sent.ext["queueOffset"]) == (0, "1", "0")
        store = cluster.brokers["b"].broker.store
        queue = store.find_queue(TOPIC, 0)
        assert queue is not None and queue.max_offset == 1
        refused = await cluster.send("a", 1, b"x")
        assert refused.code == ResponseCode.NOT_LEADER_FOR_QUEUE
        assert refused.remark == (f"{TOPIC}-1 does not exit in request process of current broker a")
        anywhere = await cluster.send("b", -1, b"y")
        assert (anywhere.ext["queueId"], anywhere.ext["queueOffset"]) == ("1", "1")
        found = await cluster.pull("b", 1, 0)
        assert bodies(found) == [b"x", b"y"]
        assert found.ext["offsetDelta"] == "0"


async def test_the_route_says_who_leads(tmp_path: Path) -> None:
    """Clients see logical queues by what nameservers pass on of each broker's registration."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        for turn in range(2):
            live = cluster.brokers["a"]
            reply = await live.pool.call(
                cluster.namesrv,
                Command(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}),
                5,
            )
            route = decode_body(TopicRouteData, reply.body)
            mapped = route.topic_queue_mapping_by_broker
            assert mapped is not None
            led = {name: each["currIdMap"] for name, each in mapped.items()}
            keys = {name: {int(k): v for k, v in ids.items()} for name, ids in led.items()}
            assert keys == (
                {"a": {0: 0}, "b": {1: 0}} if not turn else {"a": {}, "b": {0: 1, 1: 0}}
            )
            assert {each["scope"] for each in mapped.values()} == {"__global__"}
            if not turn:
                await remapped(cluster)


async def test_nothing_is_lost_or_twice_through_a_remapping(tmp_path: Path) -> None:
    """A reader gets what the old queue had from its broker, and then what the new one has."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        for body in (b"1", b"2", b"3"):
            await cluster.send("a", 0, body)
        await remapped(cluster)
        late = await cluster.send("a", 0, b"late")
        assert late.code == ResponseCode.NOT_LEADER_FOR_QUEUE
        sent = await cluster.send("b", 0, b"4")
        assert (sent.ext["queueId"], sent.ext["queueOffset"]) == ("0", str(ROUNDED))
        offset, seen = 0, []
        for _ in range(6):
            reply = await cluster.pull("b", 0, offset)
            seen += bodies(reply)
            if reply.code == ResponseCode.PULL_NOT_FOUND:
                break
            assert reply.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY)
            if reply.code == 0:
                last = records(reply)[-1].queue_offset + int(reply.ext["offsetDelta"])
                assert int(reply.ext["nextBeginOffset"]) == last + 1
            offset = int(reply.ext["nextBeginOffset"])
        assert seen == [b"1", b"2", b"3", b"4"]
        assert offset == ROUNDED + 1
        old = await cluster.pull("a", 0, 0)
        assert old.code == ResponseCode.NOT_LEADER_FOR_QUEUE
        assert old.remark == (
            f"{TOPIC}-0 cannot find mapping item in request process of current broker a"
        )


async def test_a_queue_whose_beginning_is_not_decided_takes_messages(tmp_path: Path) -> None:
    """Between the steps the new broker stores, and readers wait at the end of the old queue."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        await cluster.send("a", 0, b"1")
        undecided = {1: [Piece("b", 0)], 0: [Piece("a", 0), Piece("b", 1, -1)]}
        assert (await cluster.map("b", 2, undecided)).code == 0
        sent = await cluster.send("b", 0, b"2")
        assert (sent.code, sent.ext["queueOffset"]) == (0, "-1")
        assert bodies(await cluster.pull("b", 0, 0)) == [b"1"]
        assert (await cluster.pull("b", 0, 1)).code == ResponseCode.PULL_NOT_FOUND
        assert number(await cluster.ask("b", Code.GET_MAX_OFFSET, 0)) == 1
        await remapped(cluster)
        again = await cluster.pull("b", 0, 1)
        assert again.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert again.ext["nextBeginOffset"] == str(ROUNDED)
        assert bodies(await cluster.pull("b", 0, ROUNDED)) == [b"2"]


async def test_offsets_are_logical_ones(tmp_path: Path) -> None:
    """14, 15 and 29 to 32, before and after, of stretches here and on the other broker."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        for body in (b"1", b"2", b"3"):
            await cluster.send("a", 0, body)
        commit = {"commitOffset": 2}
        for broker in ("a", "b"):
            await cluster.pull(broker, 0 if broker == "a" else 1, 0)  # makes the group
        assert (await cluster.ask("a", Code.UPDATE_CONSUMER_OFFSET, 0, **commit)).code == 0
        assert number(await cluster.ask("a", Code.QUERY_CONSUMER_OFFSET, 0)) == 2
        await remapped(cluster)
        await cluster.send("b", 0, b"4")
        assert number(await cluster.ask("b", Code.QUERY_CONSUMER_OFFSET, 0)) == 2
        assert number(await cluster.ask("b", Code.GET_MAX_OFFSET, 0)) == ROUNDED + 1
        assert number(await cluster.ask("b", Code.GET_MIN_OFFSET, 0)) == 0
        earliest = await cluster.ask("b", Code.GET_EARLIEST_MSG_STORETIME, 0)
        assert int(earliest.ext["timestamp"]) > 0
        start = {"timestamp": 0}
        assert number(await cluster.ask("b", Code.SEARCH_OFFSET_BY_TIMESTAMP, 0, **start)) == 0
        end = {"timestamp": 2**62}
        found = number(await cluster.ask("b", Code.SEARCH_OFFSET_BY_TIMESTAMP, 0, **end))
        assert found == ROUNDED + 1
        back = {"commitOffset": 3}
        assert (await cluster.ask("b", Code.UPDATE_CONSUMER_OFFSET, 0, **back)).code == 0
        assert cluster.brokers["a"].broker.context.tables.offsets.committed("g", TOPIC, 0) == 3
        on = {"commitOffset": ROUNDED + 1}
        assert (await cluster.ask("b", Code.UPDATE_CONSUMER_OFFSET, 0, **on)).code == 0
        assert cluster.brokers["b"].broker.context.tables.offsets.committed("g", TOPIC, 1) == 1
        assert number(await cluster.ask("b", Code.QUERY_CONSUMER_OFFSET, 0)) == ROUNDED + 1
        refused = await cluster.ask("a", Code.GET_MAX_OFFSET, 0)
        assert refused.code == ResponseCode.NOT_LEADER_FOR_QUEUE


async def test_who_waits_is_told_when_the_queue_goes_away(tmp_path: Path) -> None:
    """A held pull is refused at once (501): its client asks for the route and goes on elsewhere."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        await cluster.send("a", 0, b"1")
        waiting = asyncio.create_task(
            cluster.pull("a", 0, 1, sysFlag=6, suspendTimeoutMillis=60_000)
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await remapped(cluster)
        reply = await asyncio.wait_for(waiting, 5)
        assert reply.code == ResponseCode.NOT_LEADER_FOR_QUEUE


async def test_who_waits_gets_what_comes(tmp_path: Path) -> None:
    """A held pull of a stretch that does not begin with 0 is answered in logical offsets."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        await remapped(cluster)
        waiting = asyncio.create_task(
            cluster.pull("b", 0, ROUNDED, sysFlag=6, suspendTimeoutMillis=60_000)
        )
        await asyncio.sleep(0.05)
        await cluster.send("b", 0, b"now")
        reply = await asyncio.wait_for(waiting, 5)
        assert bodies(reply) == [b"now"]
        assert reply.ext["nextBeginOffset"] == str(ROUNDED + 1)
        assert reply.ext["offsetDelta"] == str(ROUNDED)


async def test_a_commit_that_comes_with_a_pull_is_a_logical_one(tmp_path: Path) -> None:
    """RocketMQ takes its number for one of the physical queue."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        await remapped(cluster)
        for body in (b"1", b"2"):
            await cluster.send("b", 0, body)
        await cluster.pull("b", 0, ROUNDED + 1, sysFlag=5, commitOffset=ROUNDED + 1)
        assert cluster.brokers["b"].broker.context.tables.offsets.committed("g", TOPIC, 1) == 1
        assert number(await cluster.ask("b", Code.QUERY_CONSUMER_OFFSET, 0)) == ROUNDED + 1


async def test_old_stretches_need_their_broker(tmp_path: Path) -> None:
    """While it is away its readers are told so, again and again; nothing is passed over."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        await cluster.send("a", 0, b"1")
        await remapped(cluster)
        await cluster.pull("b", 0, 0)  # knows where it is
        await cluster.brokers["a"].broker.stop()
        reply = await cluster.pull("b", 0, 0)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark is not None and "broker a" in reply.remark
        assert (await cluster.send("b", 0, b"2")).code == 0
        assert bodies(await cluster.pull("b", 0, ROUNDED)) == [b"2"]


@pytest.mark.parametrize("known_before", [False, True])
async def test_mappings_outlive_a_kill(tmp_path: Path, known_before: bool) -> None:
    """They are on the disk before 513 is answered; RocketMQ's file, with its odd keys, is read."""
    folder = tmp_path / "store" / "config"
    if known_before:
        folder.mkdir(parents=True)
        text = encode_body(
            msgspec.structs.replace(detail("a", 1, {0: [Piece("a", 0)]}), total_queues=1),
            strict=False,
        ).decode()
        (folder / "topicQueueMapping.json").write_text(
            f'{{"dataVersion":{{"counter":3,"stateVersion":0,"timestamp":1}},'
            f'"topicQueueMappingInfoMap":{{"{TOPIC}":{text}}}}}'
        )
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert (
            await cluster.map("a", 1, {0: [Piece("a", 1)] if not known_before else [Piece("a", 0)]})
        ).code == 0
        assert (folder / "topicQueueMapping.json").exists()
        kept = (folder / "topicQueueMapping.json").read_bytes()
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert b'"hostedQueues"' in kept
        sent = await cluster.send("a", 0, b"x")
        assert (sent.code, sent.ext["queueId"]) == (0, "0")
        assert (await cluster.send("a", 1, b"x")).code == ResponseCode.NOT_LEADER_FOR_QUEUE


async def test_a_topic_tells_its_mapping_to_who_asks_for_both(tmp_path: Path) -> None:
    """351 with lo=true, and 21; a topic that is deleted takes its mapping along."""
    async with static_cluster(tmp_path) as cluster:
        await made(cluster)
        live = cluster.brokers["a"]
        reply = await live.ask(Code.GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": "true"})
        told = decode_body(TopicConfigAndQueueMapping, reply.body)
        assert told.mapping_detail == cluster.feature("a").table.details[TOPIC]
        plain = await live.ask(Code.GET_TOPIC_CONFIG, {"topic": TOPIC})
        assert b"mappingDetail" not in plain.body
        every = await live.ask(Code.GET_ALL_TOPIC_CONFIG)
        assert b'"topicQueueMappingDetailMap":{"static":' in every.body
        await live.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        text = (live.broker.settings.config_dir / "topicQueueMapping.json").read_bytes()
        assert b"static" not in text
        assert (await cluster.send("a", 1, b"x")).code == 0  # any topic, made by the send


async def test_a_topic_that_was_fast_is_read_by_its_mapping(tmp_path: Path) -> None:
    """Sends that had passed, and pulls that compiled code had learned, are looked at again."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        for body in (b"1", b"2", b"3", b"4"):
            assert (await cluster.send("a", 1, body)).code == 0
        for offset in range(4):
            await cluster.pull("a", 1, offset, maxMsgNums=1)
        assert (await cluster.map("a", 1, {1: [Piece("a", 0)]})).code == 0
        assert (await cluster.send("a", 1, b"new")).code == 0
        assert bodies(await cluster.pull("a", 1, 0)) == [b"new"]
        assert (await cluster.send("a", 0, b"x")).code == ResponseCode.NOT_LEADER_FOR_QUEUE


@pytest.mark.parametrize(
    ("epoch", "queues", "remark"),
    [
        (1, {0: [Piece("a", 0)]}, "Can't accept data with small epoch 1 < 5"),
        (5, {0: [Piece("a", 1)]}, "generation 0 was queue 0 of a"),
        (5, {0: [Piece("a", 0), Piece("b", 0, 10)]}, "The new leader is different but epoch equal"),
        (6, {0: []}, "The new item list is null or empty"),
        (6, {0: [Piece("a", 0, 9), Piece("b", 0, 9)]}, "The base logic offset does not increase"),
        (6, {40_000: [Piece("a", 0)]}, "beyond limits"),
        (6, {0: [Piece("a", 40_000)]}, "beyond 32767"),
    ],
)
async def test_what_does_not_follow_is_refused(
    tmp_path: Path, epoch: int, queues: dict[int, list[Piece]], remark: str
) -> None:
    """With RocketMQ's words; the mapping stays, also on the disk."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert (await cluster.map("a", 5, {0: [Piece("a", 0)]})).code == 0
        reply = await cluster.map("a", epoch, queues)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark is not None and remark in reply.remark
        assert cluster.feature("a").table.details[TOPIC] == detail("a", 5, {0: [Piece("a", 0)]})


async def test_force_replaces_what_is_kept(tmp_path: Path) -> None:
    """But for logical queues that the new mapping does not name."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        await cluster.map("a", 5, {0: [Piece("a", 0)], 1: [Piece("a", 1)]})
        assert (await cluster.map("a", 1, {0: [Piece("a", 1)]}, force=True)).code == 0
        kept = cluster.feature("a").table.details[TOPIC]
        assert kept == detail("a", 1, {0: [Piece("a", 1)], 1: [Piece("a", 1)]})


async def test_a_broker_without_static_topics_does_without(tmp_path: Path) -> None:
    """Nothing stands before its processors, its pulls or its sends."""
    async with live_broker(tmp_path) as live:
        context = live.broker.context
        assert context.sends.checks.may_append is None
        assert context.writing.queues.mapped == ()
        assert type(context.pulls.server).__name__ == "PullProcessor"
