"""Whoever is a broker hears who is here before anything else on a new connection."""

from support.consumers import Seen, consumer
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

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


async def test_a_broker_that_nobody_asks_is_greeted_again(cluster: FakeCluster) -> None:
    """It took the member for gone, and whoever asks it would share the queues without that one."""
    cluster.brokers[0].topics["t"] = 1
    idle = cluster.brokers[1]
    idle.topics["other"], idle.creates_retry_topics = 1, False
    async with consumer(cluster, Seen().handle) as member:
        instance = member._started()
        await instance.routes.get_anew("other")
        await instance.heartbeats.send_all()
        lost = set(idle.members["g"])
        assert lost
        for connection in lost:
            connection.close("test")
        await until(lambda: bool(set(idle.members["g"]) - lost), what="it is greeted again")
