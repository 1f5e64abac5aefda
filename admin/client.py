"""A look at a cluster, and changes to it, over the same protocol that mqadmin speaks."""

import asyncio
from typing import Final

from aerobee.client.cluster.directory import Cluster
from aerobee.client.errors import BrokerRefused
from aerobee.remoting.bodies import TopicList, TopicRouteData
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.headers.route import RouteInfoRequest

TOPICS_AT_ONCE: Final = 256  # routes that are asked for side by side


class AdminClient(Cluster):
    """Lists and changes what a cluster has (DefaultMQAdminExt.java).

    async with AdminClient("127.0.0.1:9876") as admin:
        await admin.create_topic("orders", queues=8)
    """

    async def topics(self) -> list[str]:
        """List the topics of all clusters, RocketMQ's own included, sorted."""
        listed = await self.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList)
        return sorted(listed.topic_list)

    async def queues(self, topic: str) -> dict[str, int]:
        """Return how many queues of a topic can be read, by broker name; {} if nobody has it."""
        header = RouteInfoRequest(topic=topic, accept_standard_json_only=True)
        try:
            route = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteData, header)
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return {}
            raise
        return {data.broker_name: data.read_queue_nums for data in route.queue_datas}

    async def all_queues(self) -> dict[str, dict[str, int]]:
        """Return for every topic what `queues` does, topics sorted."""
        topics = await self.topics()
        found: dict[str, dict[str, int]] = {}
        for at in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[at : at + TOPICS_AT_ONCE]
            answers = await asyncio.gather(*map(self.queues, some))
            found.update(zip(some, answers, strict=True))
        return found
