"""Answers made of the route table."""

import pytest
from msgspec.structs import replace

from aerobee.namesrv import route_views
from aerobee.namesrv.route_table import Registration, RouteTable
from aerobee.remoting.bodies import (
    BrokerData,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)


def wrapper(**perms: int) -> TopicConfigSerializeWrapper:
    """Topics with their permissions."""
    return TopicConfigSerializeWrapper(
        topic_config_table={name: TopicConfig(topic_name=name, perm=p) for name, p in perms.items()}
    )


MASTER = Registration(
    cluster="c", name="a", broker_id=0, address="h:1", topics=wrapper(t=6, u=6), acting_master=True
)
SLAVE = replace(MASTER, broker_id=2, address="s:1")


@pytest.fixture
def table() -> RouteTable:
    """A master and its slave, and a broker in another cluster and zone."""
    table = RouteTable(lambda: 0)
    table.register(MASTER)
    table.register(SLAVE)
    other = Registration(
        cluster="d", name="b", broker_id=0, address="h:5", zone="Z2", topics=wrapper(t=6, v=4)
    )
    table.register(other)
    return table


def names(route: TopicRouteData | None) -> set[str]:
    """The brokers of a route, which must be those of its queues."""
    assert route is not None
    found = {each.broker_name for each in route.broker_datas}
    assert {each.broker_name for each in route.queue_datas} == found
    return found


def test_a_route_lists_brokers_and_queues(table: RouteTable) -> None:
    """Every broker that has the topic, with all addresses."""
    route = route_views.topic_route(table, "t")
    assert names(route) == {"a", "b"}
    assert route is not None
    assert {each.broker_name: each.broker_addrs for each in route.broker_datas} == {
        "a": {0: "h:1", 2: "s:1"},
        "b": {0: "h:5"},
    }
    assert route_views.topic_route(table, "nothing") is None


def test_a_route_carries_filter_servers_and_mappings(table: RouteTable) -> None:
    """Both only where there are any."""
    plain = route_views.topic_route(table, "t")
    assert plain is not None
    assert (plain.filter_server_table, plain.topic_queue_mapping_by_broker) == ({}, None)
    table.filter_servers["c", "h:1"] = ["f:1"]
    table.mappings["t"] = {"a": {"bname": "a"}}
    route = route_views.topic_route(table, "t")
    assert route is not None
    assert route.filter_server_table == {"h:1": ["f:1"]}
    assert route.topic_queue_mapping_by_broker == {"a": {"bname": "a"}}


def test_a_slave_acts_as_master_where_that_is_wanted(table: RouteTable) -> None:
    """Its id is shown as 0 when the master is gone, the server allows it and so does the group."""
    table.unregister("c", "a", "h:1")
    hidden = route_views.topic_route(table, "u")
    assert hidden is not None
    assert hidden.broker_datas[0].broker_addrs == {2: "s:1"}
    shown = route_views.topic_route(table, "u", acting_master=True)
    assert shown is not None
    assert shown.broker_datas[0].broker_addrs == {0: "s:1"}
    assert shown.queue_datas[0].perm == 4
    assert table.brokers["a"].addresses == {2: "s:1"}
    table.brokers["a"].acting_master = False
    refused = route_views.topic_route(table, "u", acting_master=True)
    assert refused is not None
    assert refused.broker_datas[0].broker_addrs == {2: "s:1"}


def test_the_members_topic_never_shows_an_acting_master(table: RouteTable) -> None:
    """Brokers find their own group by it."""
    topic = "rmq_sys_SYNC_BROKER_MEMBER_a"
    table.register(replace(MASTER, topics=wrapper(**{topic: 6, "x": 6})))
    table.unregister("c", "a", "h:1")
    route = route_views.topic_route(table, topic, acting_master=True)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {2: "s:1"}


def test_a_zone_sees_its_own_brokers(table: RouteTable) -> None:
    """And those whose master is down, wherever they are."""
    route = route_views.topic_route(table, "t")
    assert route is not None
    assert names(route_views.in_zone(route, "z2")) == {"b"}
    assert names(route_views.in_zone(route, "elsewhere")) == set()
    table.unregister("c", "a", "h:1")
    route = route_views.topic_route(table, "t")
    assert route is not None
    assert names(route_views.in_zone(route, "z2")) == {"a", "b"}


def test_cluster_info_lists_everything(table: RouteTable) -> None:
    """Brokers by name, names by cluster."""
    info = route_views.cluster_info(table)
    assert info.cluster_addr_table == {"c": ["a"], "d": ["b"]}
    assert info.broker_addr_table["b"] == BrokerData(
        cluster="d", broker_name="b", broker_addrs={0: "h:5"}, zone_name="Z2"
    )


def test_member_group_lists_addresses(table: RouteTable) -> None:
    """A stranger has none."""
    assert route_views.member_group(table, "c", "a").broker_addrs == {0: "h:1", 2: "s:1"}
    assert route_views.member_group(table, "c", "x").broker_addrs == {}


def test_topic_lists(table: RouteTable) -> None:
    """All, by cluster, and those named after clusters and brokers."""
    assert set(route_views.all_topics(table).topic_list) == {"t", "u", "v"}
    assert route_views.topics_of_cluster(table, "c").topic_list == ["t", "u"]
    assert route_views.topics_of_cluster(table, "x").topic_list == []
    system = route_views.system_topics(table)
    assert set(system.topic_list) == {"c", "a", "d", "b"}
    assert system.broker_addr in {"h:1", "s:1", "h:5"}
    assert route_views.system_topics(RouteTable(lambda: 0)).topic_list == []


def test_topics_by_flag() -> None:
    """Unit topics, unit-subscribed ones, and the latter without the former."""
    table = RouteTable(lambda: 0)
    configs = {
        name: TopicConfig(topic_name=name, topic_sys_flag=flag)
        for name, flag in {"none": 0, "unit": 1, "sub": 2, "both": 3}.items()
    }
    topics = TopicConfigSerializeWrapper(topic_config_table=configs)
    table.register(replace(MASTER, topics=topics))
    assert set(route_views.topics_by_flag(table, 1).topic_list) == {"unit", "both"}
    assert set(route_views.topics_by_flag(table, 2).topic_list) == {"sub", "both"}
    assert set(route_views.topics_by_flag(table, 2, 1).topic_list) == {"sub"}
