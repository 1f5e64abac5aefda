"""Locks of queues are asked of each queue's broker, and given back there."""

from support.stand_ins.fake_cluster import FakeCluster

from aerobee.client import ClientSettings, MessageQueue
from aerobee.client.group.locks import GroupLocks
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.remoting import bodies
from aerobee.remoting.bodies import LockBatchBody, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode

QUEUES = {MessageQueue("t", f"broker-{name}", number) for name in "ab" for number in range(2)}


async def instances(cluster: FakeCluster) -> tuple[ClientInstance, ClientInstance]:
    """Return two clients that know the topic's brokers."""
    cluster.create("t", 2)
    both = tuple(
        ClientInstance((cluster.namesrv,), ClientSettings(instance_name=name)) for name in "ab"
    )
    for each in both:
        await each.routes.get("t")
    return both[0], both[1]


async def test_one_client_has_a_lock_at_a_time(cluster: FakeCluster) -> None:
    """Whoever asks second gets what is left, and the rest after it was given back."""
    first, second = await instances(cluster)
    mine, others = GroupLocks(first, "g", required=True), GroupLocks(second, "g", required=True)
    kept = MessageQueue("t", "broker-b", 1)
    assert await mine.lock(QUEUES - {kept}) == QUEUES - {kept}
    assert await mine.lock(QUEUES - {kept}) == QUEUES - {kept}
    assert await others.lock(QUEUES) == {kept}
    await mine.unlock(QUEUES)
    assert await others.lock(QUEUES) == QUEUES
    for each in (first, second):
        await each.close()


async def test_each_broker_is_asked_once(cluster: FakeCluster) -> None:
    """With the group, the client's id and its own queues alone."""
    first, second = await instances(cluster)
    await GroupLocks(first, "g").lock(sorted(QUEUES))
    for broker in cluster.brokers:
        (command,) = broker.requests(RequestCode.LOCK_BATCH_MQ)
        assert decode_body(LockBatchBody, command.body) == LockBatchBody(
            consumer_group="g",
            client_id=first.client_id,
            mq_set=[
                bodies.QueueBody(topic="t", broker_name=broker.name, queue_id=number)
                for number in range(2)
            ],
        )
    for each in (first, second):
        await each.close()


async def test_a_broker_that_fails_grants_nothing(cluster: FakeCluster) -> None:
    """The other one's locks are still got, and nothing is raised."""
    first, second = await instances(cluster)
    locks = GroupLocks(first, "g", required=True)
    cluster.brokers[0].refuse(RequestCode.LOCK_BATCH_MQ, ResponseCode.SYSTEM_ERROR)
    cluster.brokers[0].refuse(RequestCode.UNLOCK_BATCH_MQ, ResponseCode.SYSTEM_ERROR)
    unknown = MessageQueue("nowhere", "broker-z", 0)
    assert {each.broker_name for each in await locks.lock({*QUEUES, unknown})} == {"broker-b"}
    await locks.unlock({*QUEUES, unknown})
    assert not cluster.brokers[1].owners.locks
    for each in (first, second):
        await each.close()


async def test_plain_groups_unlock_only_where_it_was_offered(cluster: FakeCluster) -> None:
    """A broker that knows nothing of hand-overs is not told of them."""
    first, second = await instances(cluster)
    await GroupLocks(first, "g").unlock(QUEUES)
    for broker in cluster.brokers:
        assert not broker.requests(RequestCode.UNLOCK_BATCH_MQ)
    for each in (first, second):
        await each.close()
