"""Whoever is a broker hears who is here before anything else on a new connection."""

from support.stand_ins.fake_cluster import FakeCluster

from aerobee.client import Message, Producer
from aerobee.remoting.codes import RequestCode


async def test_a_broker_that_has_left_the_routes_is_greeted(cluster: FakeCluster) -> None:
    """Its address may have been looked up before: what follows there is a member's request."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"))
        instance = producer._started()
        moved = cluster.brokers[1]
        instance.connections.drop(moved.address, "test")
        instance.routes.brokers.pop(moved.name)  # as when no route names it any more
        at = len(moved.seen)
        await instance.connections.call(moved.address, RequestCode.GET_MAX_OFFSET, {})
        assert moved.seen[at].code == RequestCode.HEART_BEAT
