"""The plain pull consumer pulls what it is told to, and nothing by itself."""

import asyncio
import gc
import warnings

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    InvalidUse,
    MessageQueue,
    PullConsumer,
    PullConsumerSettings,
    PullResult,
    PullStatus,
)
from aerobee.client.hooks import ConsumeContext, ConsumeHook, FilterContext, FilterHook
from aerobee.remoting.bodies import ConsumerRunningInfo, decode_body
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.connection import Connection

A0 = MessageQueue("t", "broker-a", 0)


def fill(cluster: FakeCluster, count: int, tags: str = "") -> None:
    """Store messages in A0."""
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    for at in range(count):
        cluster.brokers[0].store("t", 0, b"%d" % at, properties)


def consumer(cluster: FakeCluster, **settings: int) -> PullConsumer:
    """Return a pull consumer of group g."""
    return PullConsumer("g", namesrv=cluster.namesrv, settings=PullConsumerSettings(**settings))


async def test_each_outcome_is_told(cluster: FakeCluster) -> None:
    """Messages, none yet, none that match, an offset that is not there."""
    cluster.create("t", 1)
    fill(cluster, 5, tags="a")
    async with consumer(cluster) as member:
        assert await member.fetch_queues("t") == [A0, A0._replace(broker_name="broker-b")]
        found = await member.pull(A0, 1, messages_max=3)
        assert [each.queue_offset for each in found.messages] == [1, 2, 3]
        assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (
            PullStatus.FOUND,
            4,
            0,
            5,
        )
        bounds = {(each.queue_offset_min, each.queue_offset_max) for each in found.messages}
        assert bounds == {(0, 5)}, "each message tells what its queue held"
        none = await member.pull(A0, 0, tags="b")
        assert (none.status, none.next_offset, none.messages) == (PullStatus.NO_MATCHED_MSG, 5, [])
        illegal = await member.pull(A0, 99)
        assert (illegal.status, illegal.next_offset) == (PullStatus.OFFSET_ILLEGAL, 5)
    ext = cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)[0].ext
    assert int(ext["sysFlag"]) == PullSysFlag.SUBSCRIPTION
    assert (ext["maxMsgNums"], ext["commitOffset"], ext["subscription"]) == ("3", "0", "*")
    assert not cluster.brokers[0].heartbeats, "it is no member"


async def test_blocking_pulls_wait_in_the_broker(cluster: FakeCluster) -> None:
    """Until something comes, or for `suspend_ms`."""
    cluster.create("t", 1)
    async with consumer(cluster, suspend_ms=30) as member:
        assert (await member.pull_when_available(A0, 0)).status is PullStatus.NO_NEW_MSG
    async with consumer(cluster) as member:
        waiting = asyncio.ensure_future(member.pull_when_available(A0, 0, tags="a"))
        await until(lambda: len(cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)) == 2)
        fill(cluster, 1, tags="a")
        assert [each.body for each in (await waiting).messages] == [b"0"]
    ext = cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)[1].ext
    assert int(ext["sysFlag"]) == PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND
    assert ext["suspendTimeoutMillis"] == "20000"


async def test_callbacks_get_results_and_errors(cluster: FakeCluster) -> None:
    """What is wrong with the arguments is raised at once."""
    cluster.create("t", 1)
    fill(cluster, 2)
    got: list[PullResult | AerobeeError] = []

    def broken(outcome: PullResult | AerobeeError) -> None:
        got.append(outcome)
        raise ZeroDivisionError

    async with consumer(cluster) as member:
        member.pull_with_callback(A0, 0, got.append)
        await until(lambda: len(got) == 1)
        assert isinstance(got[0], PullResult) and len(got[0].messages) == 2
        cluster.brokers[0].refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION)
        member.pull_with_callback(A0, 0, broken)
        await until(lambda: len(got) == 2)
        assert isinstance(got[1], BrokerRefused)
        for offset, most, said in ((-1, 1, "offset=-1: allowed"), (0, 0, "messages_max=0: all")):
            with pytest.raises(InvalidUse, match=said):
                member.pull_with_callback(A0, offset, got.append, messages_max=most)
        with pytest.raises(InvalidUse, match="by tags or by sql"):
            member.pull_with_callback(A0, 0, got.append, tags="a", sql="a > 1")


async def test_oneway_pulls_take_no_answer(cluster: FakeCluster) -> None:
    """The broker gets the request all the same."""
    cluster.create("t", 1)
    async with consumer(cluster) as member:
        await member.pull_oneway(A0, 0)
        await until(lambda: bool(cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)))
    assert cluster.brokers[0].requests(RequestCode.PULL_MESSAGE)[0].is_oneway


async def test_offsets_are_the_groups(cluster: FakeCluster) -> None:
    """Asked for and stored at the broker, by hand alone."""
    cluster.create("t", 1)
    fill(cluster, 9)
    async with consumer(cluster) as member:
        assert await member.committed(A0) is None
        await member.commit(A0, 4)
        assert await member.committed(A0) == 4
        assert (await member.oldest_offset(A0), await member.newest_offset(A0)) == (0, 9)
        assert await member.offset_for_timestamp(A0, 1_700_000_000_006) == 6
    assert cluster.brokers[0].committed == {("g", "t", 0): 4}


class Watching(ConsumeHook):
    """Counts what was pulled."""

    messages = 0

    def after(self, context: ConsumeContext) -> None:
        """Count."""
        self.messages += len(context.messages)


async def test_consume_hooks_see_what_was_pulled(cluster: FakeCluster) -> None:
    """Each pull that brought something."""
    cluster.create("t", 1)
    fill(cluster, 2)
    hook = Watching()
    async with PullConsumer("g", namesrv=cluster.namesrv, hooks=[hook]) as member:
        await member.pull(A0, 0)
        await member.pull(A0, 1)
    assert hook.messages == 3


class Nothing(FilterHook):
    """Takes everything out."""

    def filter(self, context: FilterContext) -> None:
        """Leave nothing."""
        context.messages.clear()


async def test_filter_hooks_see_what_was_pulled(cluster: FakeCluster) -> None:
    """What they take out is passed over."""
    cluster.create("t", 1)
    fill(cluster, 2)
    async with PullConsumer("g", namesrv=cluster.namesrv, hooks=[Nothing()]) as member:
        result = await member.pull(A0, 0)
        assert (result.messages, result.next_offset) == ([], 2)


async def test_brokers_list_who_names_topics(cluster: FakeCluster) -> None:
    """As Java's client writes it, until the end; an operator may ask what it does."""
    cluster.create("t", 1)
    broker = cluster.brokers[1]
    async with PullConsumer("g", namesrv=cluster.namesrv, topics=["t"]) as member:
        (group,) = broker.heartbeats[0].consumer_data_set
        assert (group.group_name, group.consume_type) == ("g", "CONSUME_ACTIVELY")
        assert (group.message_model, group.handover_timeout_millis) == ("CLUSTERING", None)
        assert group.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        (wanted,) = group.subscription_data_set
        assert (wanted.topic, wanted.sub_string, wanted.sub_version) == ("t", "*", 0)
        (connection,) = broker.members["g"]
        ext = {"consumerGroup": "g", "clientId": "", "jstackEnable": "false"}
        asked = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        info = decode_body(ConsumerRunningInfo, (await connection.call(asked, 5)).body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert [each.topic for each in info.subscription_set] == ["t"]
        await member.commit(A0, 3)
        assert await member.committed(A0) == 3
        async with PullConsumer("g", namesrv=cluster.namesrv, topics=["t"]):
            assert len(broker.members["g"]) == 2, "each has its own connection"
    assert not broker.members["g"]


async def test_nothing_works_outside_of_its_life(cluster: FakeCluster) -> None:
    """Before the start and after the end; a second start is refused."""
    member = consumer(cluster)
    with pytest.raises(InvalidUse, match=r"not started|is closed"):
        await member.pull(A0, 0)
    async with member:
        with pytest.raises(InvalidUse, match="started already"):
            await member.start()
    with pytest.raises(InvalidUse, match=r"not started|is closed"):
        await member.commit(A0, 0)
    await member.close()


def test_a_time_out_must_not_end_before_the_wait() -> None:
    """As the Java client checks at its start."""
    with pytest.raises(ValueError, match="suspend_timeout_ms=10"):
        PullConsumerSettings(suspend_ms=20, suspend_timeout_ms=10)


async def test_a_flood_of_notifications_makes_no_flood_of_questions(cluster: FakeCluster) -> None:
    """Changes that come while brokers are asked are looked at together."""
    cluster.create("t", 1)
    fill(cluster, 1)
    broker = cluster.brokers[0]
    async with PullConsumer("g", namesrv=cluster.namesrv, topics=["t"]) as member:
        for _ in range(100):
            broker.notify("g")
        for _ in range(2):  # the questions that the first reply finds are there before the second
            await member.pull(A0, 0)
        assert len(broker.requests(RequestCode.GET_CONSUMER_CONNECTION_LIST)) < 50


async def test_commits_made_together_keep_to_the_order_of_the_group(cluster: FakeCluster) -> None:
    """The first of a topic goes alone, and no older one of a queue comes after a later one."""
    cluster.create("t", 2)
    broker, held = cluster.brokers[0], list[tuple[Connection, Command]]()
    code = RequestCode.UPDATE_CONSUMER_OFFSET
    broker.script[code].append(lambda connection, command: held.append((connection, command)))
    async with consumer(cluster) as member:
        queues = [A0, A0, A0._replace(queue_id=1)]
        commits = [member.commit(queue, at) for at, queue in enumerate(queues)]
        committing = asyncio.gather(*commits)
        await until(lambda: bool(held))
        await member.committed(A0)  # on the same connection
        assert len(broker.requests(code)) == 1
        for connection, command in held:
            connection.send(command.reply(0))
        await committing
    assert broker.committed == {("g", "t", 0): 1, ("g", "t", 1): 2}


async def test_a_close_right_after_a_pull_leaves_nothing_unawaited(cluster: FakeCluster) -> None:
    """The pull had not even begun."""
    cluster.create("t", 1)
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with consumer(cluster) as member:
            member.pull_with_callback(A0, 0, print)
        gc.collect()
    assert not [each for each in caught if "never awaited" in str(each.message)]
