"""Which queues fall to a member, what it says about it, and what it does when it cannot know."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.consumers import Seen, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    MessageModel,
    MessageQueue,
    PullSettings,
    PushConsumer,
    PushSettings,
    Strategy,
)
from aerobee.client.cluster import outages
from aerobee.remoting import bodies
from aerobee.remoting.bodies import decode_body, encode_body
from aerobee.remoting.bodies.assignment import (
    QueryAssignmentBody,
    QueryAssignmentReply,
    QueueAssignment,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Reply

PULL = PullSettings(error_delay_ms=20, suspended_delay_ms=10, suspend_ms=200)
CLIENT = ClientSettings(rebalance_interval_ms=50, rebalance_gap_ms=20, route_interval_ms=50)
A0, A1, A2 = (MessageQueue("t", "broker-a", number) for number in range(3))
LIST = RequestCode.GET_CONSUMER_LIST_BY_GROUP


def member(
    cluster: FakeCluster,
    seen: Seen,
    *,
    strategy: Strategy | None = None,
    client: ClientSettings = CLIENT,
    **settings: object,
) -> PushConsumer:
    """Return a consumer of t from the first message on."""
    made = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(**{"pull": PULL, **settings}),  # type: ignore[arg-type]
        client=client,
        strategy=strategy,
        consume_from=ConsumeFrom.FIRST,
    )
    made.subscribe("t", seen.handle)
    return made


async def rounds(cluster: FakeCluster) -> None:
    """Wait for some more rounds of sharing."""
    asked = sum(len(broker.requests(LIST)) for broker in cluster.brokers)
    await until(lambda: sum(len(broker.requests(LIST)) for broker in cluster.brokers) > asked + 4)


async def test_a_changed_result_is_one_line_in_known_words(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Users search their logs for RocketMQ's key words."""
    caplog.set_level("INFO")
    cluster.create("t", 1)
    async with member(cluster, Seen()) as only:
        await until(lambda: len(only.queues()) == 2)
        await rounds(cluster)
        client_id = only.client_id
    lines = [each for each in caplog.messages if "topic=t" in each and "rebalanceResult" in each]
    assert len(lines) == 1
    assert lines[0].startswith(
        "client rebalanced result changed. "
        "allocateMessageQueueStrategyName=AVG, group=g, topic=t, "
        f"clientId={client_id}, mqAllSize=2, cidAllSize=1, rebalanceResultSize=2, "
        "rebalanceResultSet=['broker-a:0', 'broker-b:0']"
    )


async def test_who_broadcasts_knows_no_number_of_members(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The line says nothing of it."""
    caplog.set_level("INFO")
    cluster.create("t", 1)
    settings = PushSettings(offsets_folder=str(tmp_path))
    made = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=settings,
        client=CLIENT,
        model=MessageModel.BROADCASTING,
    )
    made.subscribe("t", Seen().handle)
    async with made:
        await until(lambda: len(made.queues()) == 2)
    (line,) = [each for each in caplog.messages if "rebalanceResult" in each]
    assert line.startswith("client rebalanced result changed. allocateMessageQueueStrategyName=AVG")
    assert "mqAllSize=2, rebalanceResultSize=2, " in line


async def test_read_and_write_queues_may_differ(cluster: FakeCluster) -> None:
    """What can be read is shared, whether it can be written or not."""
    cluster.create("t", 2)
    cluster.brokers[0].read_queues = {"t": 3}
    cluster.brokers[1].read_queues = {"t": 1}
    seen = Seen()
    async with member(cluster, seen) as only:
        await until(lambda: len(only.queues()) == 4)
        assert only.queues()[:3] == [A0, A1, A2]
        cluster.brokers[0].store("t", 2, b"left over")
        await until(lambda: seen.bodies[b"left over"] == 1)


async def test_a_queue_that_is_not_pulled_is_taken_anew(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its pull loop hangs on: the broker never answers, nor fails."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]
    seen = Seen()
    broker.script[RequestCode.PULL_MESSAGE].append(lambda *_: None)
    pull = PullSettings(error_delay_ms=20, suspend_ms=50, idle_max_ms=300)
    async with member(cluster, seen, pull=pull):
        await until(lambda: not broker.script[RequestCode.PULL_MESSAGE])
        fill(cluster, "t", 2)
        await until(lambda: len(seen.bodies) == 2)
    assert re.search(r"queue not pulled for 0\.3 s, taking it anew group=g .*broker-a", caplog.text)
    assert not broker.requests(RequestCode.UNLOCK_BATCH_MQ)


class Failing:
    """A user's strategy with an error in it."""

    name = "MINE"
    fails = False

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Give everything, of any topic, or fail."""
        if self.fails:
            raise ZeroDivisionError
        return [*queues, MessageQueue("elsewhere", "broker-a", 0)]


async def test_an_error_in_a_strategy_changes_nothing(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged by the strategy's name; queues of other topics are left out."""
    cluster.create("t", 1)
    strategy = Failing()
    async with member(cluster, Seen(), strategy=strategy) as only:
        await until(lambda: len(only.queues()) == 2)
        strategy.fails = True
        await rounds(cluster)
        assert len(only.queues()) == 2
    assert "strategy failed allocateMessageQueueStrategyName=MINE group=g topic=t" in caplog.text


async def test_nobody_to_share_with_changes_nothing(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an empty list of members nor a topic without readable queues."""
    monkeypatch.setattr(outages, "TOLD_EVERY_S", 0)  # each of them
    cluster.create("t", 1)
    async with member(cluster, Seen()) as only:
        await until(lambda: len(only.queues()) == 2)
        for broker in cluster.brokers:
            for _ in range(3):
                broker.script[LIST].append(lambda *_: Reply(body=b'{"consumerIdList":[]}'))
        await rounds(cluster)
        for broker in cluster.brokers:
            broker.read_queues = {"t": 0}
        await until(lambda: "0 readable queues" in caplog.text)
        assert len(only.queues()) == 2
    assert "2 readable queues for 0 members" in caplog.text


async def test_a_retry_topic_that_is_not_there_yet_is_no_trouble(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is logged, and rounds come no faster; once it is there, it is read."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        broker.creates_retry_topics = False
    seen = Seen()
    async with member(cluster, seen) as only:
        await until(lambda: len(only.queues()) == 2)
        await rounds(cluster)
        assert "share unknown" not in caplog.text
        cluster.brokers[0].topics["%RETRY%g"] = 1
        cluster.brokers[0].store("%RETRY%g", 0, b"again", b"RETRY_TOPIC\x01t\x02")
        await until(lambda: seen.bodies[b"again"] == 1)


async def test_locks_that_others_hold_are_waited_for(cluster: FakeCluster) -> None:
    """Ordered queues are begun with their locks alone, the free ones at once."""
    cluster.create("t", 1)
    taken = bodies.QueueBody("t", "broker-a", 0)
    locks = cluster.brokers[0].owners.locks
    locks["g", taken] = "somebody"
    made = PushConsumer("g", namesrv=cluster.namesrv, client=CLIENT, ordered=True)
    made.subscribe("t", Seen().handle)
    async with made:
        await until(lambda: len(made.queues()) == 1)
        await rounds(cluster)
        assert made.queues() == [A0._replace(broker_name="broker-b")]
        del locks["g", taken]
        await until(lambda: len(made.queues()) == 2)
        assert locks["g", taken] == made.client_id
    assert not locks


async def test_waiting_for_a_lock_asks_for_that_lock_alone(cluster: FakeCluster) -> None:
    """Not for the members of every topic, each time: others may hold it for a minute."""
    cluster.create("t", 1)
    cluster.create("u", 4)
    broker = cluster.brokers[0]
    taken = bodies.QueueBody("t", "broker-a", 0)
    broker.owners.locks["g", taken] = "somebody"
    client = ClientSettings(rebalance_interval_ms=60_000, rebalance_gap_ms=20)
    made = PushConsumer("g", namesrv=cluster.namesrv, client=client, ordered=True)
    for topic in ("t", "u"):
        made.subscribe(topic, Seen().handle)
    async with made:
        await until(lambda: len(made.queues()) == 9)
        locks = len(broker.requests(RequestCode.LOCK_BATCH_MQ))
        lists = sum(len(each.requests(LIST)) for each in cluster.brokers)
        await until(lambda: len(broker.requests(RequestCode.LOCK_BATCH_MQ)) >= locks + 3)
        assert sum(len(each.requests(LIST)) for each in cluster.brokers) == lists
        del broker.owners.locks["g", taken]
        await until(lambda: len(made.queues()) == 10)


def assigned(connection: Connection, command: Command) -> Reply:
    """Give A1 to whom asks for t."""
    body = decode_body(QueryAssignmentBody, command.body)
    queue = bodies.QueueBody("t", "broker-a", 1)
    mine = [QueueAssignment(message_queue=queue)] if body.topic == "t" else []
    return Reply(body=encode_body(QueryAssignmentReply(message_queue_assignments=mine)))


async def test_brokers_share_the_queues_if_told_to(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The group, the topic, the strategy's name and the client id go to one of them."""
    caplog.set_level("INFO")
    cluster.create("t", 2)
    for broker in cluster.brokers:
        broker.script[RequestCode.QUERY_ASSIGNMENT].extend([assigned] * 100)
    async with member(cluster, Seen(), client_rebalance=False) as only:
        await until(lambda: only.queues() == [A1])
        command = next(
            each
            for broker in cluster.brokers
            for each in broker.requests(RequestCode.QUERY_ASSIGNMENT)
            if decode_body(QueryAssignmentBody, each.body).topic == "t"
        )
        assert decode_body(QueryAssignmentBody, command.body) == QueryAssignmentBody(
            topic="t", consumer_group="g", client_id=only.client_id, strategy_name="AVG"
        )
    assert not any(broker.requests(LIST) for broker in cluster.brokers)
    (line,) = [each for each in caplog.messages if "topic=t" in each and "rebalanceRes" in each]
    assert line.startswith("broker rebalanced result changed. allocateMessageQueueStrategyName=AVG")
    assert "mqAllSize=4, rebalanceResultSize=1, rebalanceResultSet=['broker-a:1']" in line


async def test_members_share_where_brokers_cannot(cluster: FakeCluster) -> None:
    """Brokers before 5.0 do not know the request."""
    cluster.create("t", 1)
    async with member(cluster, Seen(), client_rebalance=False) as only:
        await until(lambda: len(only.queues()) == 2)
    asked = sum(len(each.requests(RequestCode.QUERY_ASSIGNMENT)) for each in cluster.brokers)
    assert 1 <= asked <= 2


async def test_queues_to_be_popped_are_not_pulled(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what to do; an error of the broker changes nothing either."""
    cluster.create("t", 1)
    queue = bodies.QueueBody("t", "broker-a", 0)
    pop = QueryAssignmentReply(
        message_queue_assignments=[QueueAssignment(message_queue=queue, mode="POP")]
    )
    for broker in cluster.brokers:
        script = broker.script[RequestCode.QUERY_ASSIGNMENT]
        script.append(lambda *_: Reply(code=ResponseCode.SYSTEM_ERROR, remark="no"))
        script.extend([lambda *_: Reply(body=b"{}")] * 4)  # the retry topic asks, too
        script.extend([lambda *_: Reply(body=encode_body(pop))] * 100)
    async with member(cluster, Seen(), client_rebalance=False) as only:
        await until(lambda: "set the message request mode to PULL" in caplog.text)
        assert only.queues() == []
    assert "knows no assignment" in caplog.text


@pytest.mark.parametrize("moved", [False, True])
async def test_a_queue_that_could_not_be_taken_keeps_no_lock(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, moved: bool
) -> None:
    """Nobody tells where to begin, at first or after a drop: who leaves gives the lock back."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker, query = cluster.brokers[0], RequestCode.QUERY_CONSUMER_OFFSET
    if not moved:
        broker.refuse(query, ResponseCode.SYSTEM_ERROR, times=1000)
    client = ClientSettings(rebalance_interval_ms=60_000, rebalance_gap_ms=60_000)
    only = PushConsumer("g", namesrv=cluster.namesrv, client=client, ordered=True)
    only.subscribe("t", Seen().handle)
    async with only:
        if moved:
            await until(lambda: len(only.queues()) == 1)
            broker.refuse(query, ResponseCode.SYSTEM_ERROR, times=1000)
            ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": "0", "minOffset": "0"}
            ext["maxOffset"] = "0"
            broker.script[RequestCode.PULL_MESSAGE].append(
                lambda *_: Reply(code=ResponseCode.PULL_OFFSET_MOVED, ext=ext)
            )
            broker.store("t", 0, b"wakes the pull")
            await until(lambda: not only.queues())
        await until(lambda: "(SYSTEM_ERROR)" in caplog.text)
        assert any(queue.topic == "t" for _, queue in broker.owners.locks)
    assert not broker.owners.locks
