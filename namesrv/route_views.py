"""What the nameserver answers about its route table; nothing here changes it."""

from typing import Final

from msgspec.structs import replace

from aerobee.namesrv.registered import MASTER_ID, BrokerGroup
from aerobee.namesrv.route_table import RouteTable
from aerobee.remoting.bodies import (
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRouteData,
)
from aerobee.remoting.codes import Perm

MEMBER_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"  # TopicValidator


def topic_route(
    table: RouteTable, topic: str, *, acting_master: bool = False
) -> TopicRouteData | None:
    """Tell where a topic is; None when no broker has it.

    With `acting_master`, a group that allows it and whose master is gone shows its smallest slave
    as the master; its queues are read-only then (RouteInfoManager.pickupTopicRouteData).
    """
    by_broker = table.topics.get(topic)
    if not by_broker:
        return None
    brokers = [_broker_data(name, table.brokers[name]) for name in by_broker]
    if acting_master and not topic.startswith(MEMBER_TOPIC_PREFIX):
        brokers = [_with_acting_master(each, by_broker[each.broker_name]) for each in brokers]
    filters = {
        address: servers
        for each in brokers
        for address in each.broker_addrs.values()
        if (servers := table.filter_servers.get((each.cluster, address))) is not None
    }
    return TopicRouteData(
        queue_datas=list(by_broker.values()),
        broker_datas=brokers,
        filter_server_table=filters,
        topic_queue_mapping_by_broker=table.mappings.get(topic),
    )


def in_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Leave out brokers of other zones, unless their master is down (ZoneRouteRPCHook.java)."""
    kept = [
        each
        for each in route.broker_datas
        if MASTER_ID not in each.broker_addrs or (each.zone_name or "").lower() == zone.lower()
    ]
    names = {each.broker_name for each in kept}
    addresses = {address for each in kept for address in each.broker_addrs.values()}
    return replace(
        route,
        broker_datas=kept,
        queue_datas=[each for each in route.queue_datas if each.broker_name in names],
        filter_server_table={
            address: servers
            for address, servers in route.filter_server_table.items()
            if address in addresses
        },
    )


def cluster_info(table: RouteTable) -> ClusterInfo:
    """List all brokers and clusters."""
    return ClusterInfo(
        broker_addr_table={name: _broker_data(name, each) for name, each in table.brokers.items()},
        cluster_addr_table={name: sorted(names) for name, names in table.clusters.items()},
    )


def member_group(table: RouteTable, cluster: str, name: str) -> BrokerMemberGroup:
    """List the addresses of one broker name; none when it is not known."""
    group = table.brokers.get(name)
    addresses = dict(group.addresses) if group else {}
    return BrokerMemberGroup(cluster=cluster, broker_name=name, broker_addrs=addresses)


def all_topics(table: RouteTable) -> TopicList:
    """List every topic."""
    return TopicList(topic_list=list(table.topics))


def topics_of_cluster(table: RouteTable, cluster: str) -> TopicList:
    """List the topics that some broker of the cluster has."""
    found: dict[str, None] = {}
    for name in sorted(table.clusters.get(cluster, ())):
        found.update(dict.fromkeys(sorted(table.brokers[name].topics)))
    return TopicList(topic_list=list(found))


def system_topics(table: RouteTable) -> TopicList:
    """List the topics that clusters and brokers are named after, and some broker's address."""
    names = [each for cluster, names in table.clusters.items() for each in (cluster, *names)]
    groups = iter(table.brokers.values())
    first = next(groups, None)
    address = next(iter(first.addresses.values())) if first else None
    return TopicList(topic_list=names, broker_addr=address)


def topics_by_flag(table: RouteTable, wanted: int, unwanted: int = 0) -> TopicList:
    """List the topics whose sysFlag has all of `wanted` and none of `unwanted`.

    As in RocketMQ the first broker's entry decides.
    """
    found = []
    for topic, by_broker in table.topics.items():
        flags = next(iter(by_broker.values())).topic_sys_flag
        if flags & wanted == wanted and not flags & unwanted:
            found.append(topic)
    return TopicList(topic_list=found)


def _broker_data(name: str, group: BrokerGroup) -> BrokerData:
    return BrokerData(
        cluster=group.cluster,
        broker_name=name,
        broker_addrs=dict(group.addresses),
        zone_name=group.zone,
        enable_acting_master=group.acting_master,
    )


def _with_acting_master(broker: BrokerData, queues: QueueData) -> BrokerData:
    addresses = dict(broker.broker_addrs)
    if MASTER_ID in addresses or not broker.enable_acting_master or queues.perm & Perm.WRITE:
        return broker
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return replace(broker, broker_addrs=addresses)
