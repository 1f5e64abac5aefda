"""What a nameserver knows of its clusters, asked over the wire."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from aerobee.remoting.bodies import Body, ClusterInfo, TopicList, TopicRouteData, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.client import ConnectionPool

B = TypeVar("B", bound=Body)

TIMEOUT_S = 5.0


class ClusterView(NamedTuple):
    """The brokers of a cluster and the topics on them."""

    brokers: tuple[tuple[str, str, int, str], ...]  # cluster, broker name, id, address
    topics: Mapping[str, Mapping[str, int]]  # topic -> broker name -> queues to read


async def look(namesrv: str) -> ClusterView:
    """Ask the nameserver at `namesrv` (host:port) for its clusters, topics and routes.

    Raises Unavailable if it cannot be reached, RequestError if it refuses.
    """
    pool = ConnectionPool()
    try:
        clusters = await _ask(pool, namesrv, RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo)
        names = await _ask(pool, namesrv, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList)
        topics = sorted(names.topic_list)
        routes = await asyncio.gather(
            *(
                _ask(pool, namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteData, topic=topic)
                for topic in topics
            )
        )
    finally:
        await pool.close()
    brokers = tuple(
        sorted(
            (data.cluster, name, broker_id, address)
            for name, data in clusters.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        )
    )
    queues = {
        topic: {data.broker_name: data.read_queue_nums for data in route.queue_datas}
        for topic, route in zip(topics, routes, strict=True)
    }
    return ClusterView(brokers, queues)


async def _ask(pool: ConnectionPool, address: str, code: int, body_type: type[B], **ext: str) -> B:
    """Send one request and read the body of its reply."""
    reply = await pool.call(address, Command(code, ext, opaque=next_opaque()), TIMEOUT_S)
    if reply.code != ResponseCode.SUCCESS:
        raise RequestError(reply.code, reply.remark or f"{address} refused request code {code}")
    return decode_body(body_type, reply.body)
