"""What a lite pull consumer reads can change while it runs."""

import asyncio
import gc
from pathlib import Path

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    ClientSettings,
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    PullSettings,
)
from aerobee.client.group.group_member import MessageModel
from aerobee.client.hooks import ConsumeContext, ConsumeHook, FilterContext, FilterHook
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.net.routes import Reply

PULL = PullSettings(batch_messages=10, error_delay_ms=20, suspended_delay_ms=10, suspend_ms=5000)
SETTINGS = LitePullSettings(handover_timeout_ms=100, pull=PULL)
A0 = MessageQueue("t", "broker-a", 0)


def fill(cluster: FakeCluster, queue: MessageQueue, count: int, tags: str = "") -> None:
    """Store messages b"0", b"1", ... in one queue."""
    broker = next(each for each in cluster.brokers if each.name == queue.broker_name)
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    for at in range(count):
        broker.store(queue.topic, queue.queue_id, b"%d" % at, properties)


def consumer(
    cluster: FakeCluster, settings: LitePullSettings = SETTINGS, **more: object
) -> LitePullConsumer:
    """Return a consumer that begins at the first message."""
    return LitePullConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=settings,
        consume_from=ConsumeFrom.FIRST,
        **more,  # type: ignore[arg-type]
    )


async def test_topics_come_and_go(cluster: FakeCluster) -> None:
    """A topic subscribed late is read a moment later; of one that is left nothing more comes."""
    cluster.create("t", 1)
    cluster.create("u", 1)
    fill(cluster, A0, 30)
    async with consumer(cluster) as member:
        with pytest.raises(InvalidUse, match=r"group 'g' has nothing to read: call consumer\.subs"):
            await member.poll(10)
        member.subscribe("t")
        await until(lambda: len(member.assignment()) == 2)
        assert [each.queue for each in await member.poll()] == [A0] * 10
        member.subscribe("u")
        await until(lambda: len(member.assignment()) == 4)
        wanted = [
            each.topic
            for each in cluster.brokers[0].heartbeats[-1].consumer_data_set[0].subscription_data_set
        ]
        assert sorted(wanted) == ["t", "u"]
        member.unsubscribe("t")
        assert await member.poll(30) == []
        await until(lambda: cluster.brokers[0].committed.get(("g", "t", 0)) == 10)
        fill(cluster, A0._replace(topic="u"), 3)
        assert {each.topic for each in await member.poll()} == {"u"}
        assert {each.topic for each in member.assignment()} == {"u"}
        member.unsubscribe("u")
        assert await member.poll(10) == []  # its user's word


async def test_who_reads_nothing_is_told(cluster: FakeCluster) -> None:
    """A poll in vain, and an iteration that never began, look like a topic without messages."""
    cluster.create("t", 1)
    fill(cluster, A0, 1)
    member = consumer(cluster)
    with pytest.raises(InvalidUse, match="is not started"):
        await anext(member)
    async with member:
        with pytest.raises(InvalidUse, match=r"await consumer.assign\(queues\) after it"):
            await anext(member)
        with pytest.raises(InvalidUse, match="has nothing to read"):
            await member.poll()
        await member.assign([])  # so many members, so few queues
        assert await member.poll(10) == []
        await member.assign([A0])
        assert len(await member.poll()) == 1
    with pytest.raises(StopAsyncIteration):
        await anext(member)


async def test_another_expression_counts_from_the_next_pull_on(cluster: FakeCluster) -> None:
    """The queues stay."""
    cluster.create("t", 1)
    member = consumer(cluster)
    member.subscribe("t", tags="a")
    async with member:
        await until(lambda: len(member.assignment()) == 2)
        fill(cluster, A0, 2, tags="a")
        assert len(await member.poll()) == 2
        member.subscribe("t", tags="b")
        await until(
            lambda: any(
                each.ext["subscription"] == "b"
                for each in cluster.brokers[0].requests(RequestCode.LITE_PULL_MESSAGE)
            )
        )
        fill(cluster, A0, 3, tags="b")
        assert [each.tags for each in await member.poll()] == ["b", "b", "b"]


async def test_a_group_has_one_late_subscriber_in_a_client(cluster: FakeCluster) -> None:
    """A broker knows one member of a group on a connection."""
    cluster.create("t", 1)
    async with consumer(cluster) as first, consumer(cluster) as second:
        first.subscribe("t")
        with pytest.raises(InvalidUse, match="another instance_name"):
            second.subscribe("t")
        await until(lambda: len(first.assignment()) == 2)
    async with consumer(cluster) as third:
        third.subscribe("t")
        await until(lambda: len(third.assignment()) == 2)


async def test_queues_can_be_assigned_before_the_start_and_by_sql(cluster: FakeCluster) -> None:
    """The expression goes with each pull."""
    cluster.create("t", 1)
    fill(cluster, A0, 1)
    member = consumer(cluster)
    await member.assign([A0], sql="a > 1")
    assert member.assignment() == [] and member.statistics() == {}
    async with member:
        await until(lambda: bool(cluster.brokers[0].requests(RequestCode.LITE_PULL_MESSAGE)))
        assert member.assignment() == [A0]
    ext = cluster.brokers[0].requests(RequestCode.LITE_PULL_MESSAGE)[0].ext
    assert (ext["subscription"], ext["expressionType"]) == ("a > 1", "SQL92")


async def test_a_start_whose_assignment_fails_leaves_nothing_open(cluster: FakeCluster) -> None:
    """The error is the user's to see."""
    member = consumer(cluster)
    await member.assign([MessageQueue("nowhere", "broker-z", 0)])
    with pytest.raises(Exception, match="nowhere"):
        await member.start()
    assert member.client_id == ""


async def test_another_start_reads_on(cluster: FakeCluster) -> None:
    """After a close, and after a start that failed."""
    cluster.create("t", 1)
    fill(cluster, A0, 2)
    member = consumer(cluster)
    await member.assign([A0])
    cluster.brokers[0].refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerRefused):
        await member.start()
    async with member:
        assert len(await member.poll()) == 2
    fill(cluster, A0, 3)
    async with member:
        assert len(await member.poll()) == 3


async def test_polls_of_an_idle_queue_leave_nothing_behind(cluster: FakeCluster) -> None:
    """However often it is asked for messages that do not come."""

    def futures() -> int:
        return sum(isinstance(each, asyncio.Future) for each in gc.get_objects())

    cluster.create("t", 1)
    async with consumer(cluster) as member:
        await member.assign([A0])
        await member.poll(timeout_ms=1)
        before = futures()
        for _ in range(100):
            assert await member.poll(timeout_ms=1) == []
        assert futures() < before + 50


async def test_changes_of_a_topic_are_told(cluster: FakeCluster) -> None:
    """Of any topic, with all its queues, as often as it changes."""
    cluster.create("t", 1)
    cluster.create("u", 1)
    told: list[tuple[str, int]] = []
    client = ClientSettings(route_interval_ms=10)
    member = consumer(cluster, client=client)
    member.on_topic_queues_changed("t", lambda topic, queues: told.append((topic, len(queues))))
    async with member:
        member.on_topic_queues_changed("u", lambda topic, queues: told.append((topic, len(queues))))
        for broker in cluster.brokers:
            broker.topics["t"] = 2
        await until(lambda: told == [("t", 4)] or ("t", 3) in told)
        await until(lambda: ("t", 4) in told)
        routes = len(cluster.brokers[0].requests(RequestCode.GET_ROUTEINFO_BY_TOPIC))
        await until(
            lambda: (
                len(cluster.brokers[0].requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) > routes + 4
            )
        )
        cluster.brokers[0].topics["u"] = 5
        await until(lambda: ("u", 6) in told)


async def test_what_was_fetched_before_a_gap_is_still_handed_out(cluster: FakeCluster) -> None:
    """The broker deletes what was not fetched yet; what was is not lost."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]
    fill(cluster, A0, 40)
    settings = LitePullSettings(auto_commit=False, fetched_messages_max=15, pull=PULL)
    async with consumer(cluster, settings) as member:
        await member.assign([A0])
        await until(lambda: member.statistics()[A0].messages == 20)
        del broker.log["t", 0][:30]
        broker.first_offset["t", 0] = 30
        offsets = [each.queue_offset for _ in range(3) for each in await member.poll()]
        assert offsets == [*range(20), *range(30, 40)]


async def test_a_reset_of_the_group_discards_what_was_fetched(cluster: FakeCluster) -> None:
    """The broker answers a pull with another offset although it has the one that was asked for."""
    cluster.create("t", 1)
    fill(cluster, A0, 20)
    broker = cluster.brokers[0]
    settings = LitePullSettings(auto_commit=False, fetched_messages_max=15, pull=PULL)
    async with consumer(cluster, settings) as member:
        await member.assign([A0])
        await until(lambda: member.statistics()[A0].messages == 20)
        ext = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": "3",
            "minOffset": "0",
            "maxOffset": "20",
        }
        broker.script[RequestCode.LITE_PULL_MESSAGE].append(
            lambda *_: Reply(code=ResponseCode.PULL_OFFSET_MOVED, ext=ext)
        )
        assert [each.queue_offset for each in await member.poll()] == list(range(10))
        await until(lambda: not broker.script[RequestCode.LITE_PULL_MESSAGE])
        await until(lambda: member.statistics()[A0].oldest_offset == 3)
        assert (await member.poll())[0].queue_offset == 3


async def test_a_broadcasting_member_keeps_its_offsets(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """In a file of its own; every member gets everything."""
    cluster.create("t", 1)
    fill(cluster, A0, 5)
    settings = LitePullSettings(handover_timeout_ms=100, pull=PULL, offsets_folder=str(tmp_path))

    async def read(name: str) -> list[int]:
        client = ClientSettings(client_ip="10.0.0.1", instance_name=name)
        member = consumer(cluster, settings, client=client, model=MessageModel.BROADCASTING)
        member.subscribe("t")
        async with member:
            return [each.queue_offset for each in await member.poll()]

    assert [await read("one"), await read("two")] == [[*range(5)]] * 2
    fill(cluster, A0, 2)
    assert await read("one") == [5, 6]
    assert not cluster.brokers[0].committed
    assert (tmp_path / "10.0.0.1@one" / "g" / "offsets.json").exists()


class Dropping(FilterHook):
    """Takes every second message out."""

    def filter(self, context: FilterContext) -> None:
        """Keep even offsets."""
        context.messages[:] = [each for each in context.messages if each.queue_offset % 2 == 0]


async def test_filter_hooks_take_messages_out(cluster: FakeCluster) -> None:
    """They count as consumed."""
    cluster.create("t", 1)
    fill(cluster, A0, 6)
    member = consumer(cluster, hooks=[Dropping()])
    member.subscribe("t")
    async with member:
        assert [each.queue_offset for each in await member.poll()] == [0, 2, 4]
    assert cluster.brokers[0].committed["g", "t", 0] == 6


class Watching(ConsumeHook):
    """Notes what is handed out."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, str]] = []

    def before(self, context: ConsumeContext) -> None:
        """Note it."""
        self.told.append(("before", len(context.messages), context.outcome))

    def after(self, context: ConsumeContext) -> None:
        """Note it."""
        self.told.append(("after", len(context.messages), context.outcome))


async def test_consume_hooks_see_what_is_handed_out(cluster: FakeCluster) -> None:
    """Batches by `poll`, messages by iterating; nothing of an empty poll."""
    cluster.create("t", 1)
    fill(cluster, A0, 12)
    hook = Watching()
    async with consumer(cluster, hooks=[hook]) as member:
        await member.assign([A0])
        await member.poll()
        async for _ in member:
            break
        assert len(await member.poll()) == 1
        assert await member.poll(10) == []
    sizes = [(what, size) for what, size, _ in hook.told]
    assert sizes == [(what, size) for size in (10, 1, 1) for what in ("before", "after")]
    assert [outcome for *_, outcome in hook.told] == ["", "SUCCESS"] * 3
