"""The route table, without a socket: who comes, who goes, and what topics they leave."""

import pytest
from msgspec.structs import replace

from aerobee.namesrv.capacity import Capacity
from aerobee.namesrv.registered import MasterAddress
from aerobee.namesrv.route_table import CHANGES_TOLD_MAX, Registration, RouteTable
from aerobee.remoting.bodies import (
    DataVersion,
    QueueData,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from aerobee.remoting.errors import RequestError


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


def topics(
    *names: str, counter: int = 1, state: int = 0, perm: int = 6, queues: int = 4
) -> TopicConfigSerializeWrapper:
    """The topics of a registration."""
    return TopicConfigSerializeWrapper(
        topic_config_table={
            name: TopicConfig(
                topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm
            )
            for name in names
        },
        data_version=DataVersion(counter=counter, state_version=state, timestamp=1),
    )


MASTER = Registration(
    cluster="c", name="a", broker_id=0, address="h:1", ha_address="h:2", topics=topics("t", "u")
)
SLAVE = replace(MASTER, broker_id=1, address="s:1", ha_address="s:2")


@pytest.fixture
def clock() -> Clock:
    """The time of the table."""
    return Clock()


@pytest.fixture
def table(clock: Clock) -> RouteTable:
    """An empty table."""
    return RouteTable(clock)


def perms(table: RouteTable, name: str = "a") -> set[int]:
    """The permissions of all topics of a broker."""
    return {table.topics[topic][name].perm for topic in table.brokers[name].topics}


def test_a_master_brings_its_topics(table: RouteTable) -> None:
    """After its registration every topic leads to it."""
    assert table.register(MASTER) == MasterAddress()
    assert table.topics["t"]["a"] == QueueData(
        broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6
    )
    assert table.brokers["a"].addresses == {0: "h:1"}
    assert table.clusters == {"c": {"a"}}


def test_a_slave_is_told_its_master(table: RouteTable) -> None:
    """Its topics do not count, the master's address and HA address are the reply."""
    table.register(MASTER)
    assert table.register(replace(SLAVE, topics=topics("x", "y"))) == MasterAddress("h:2", "h:1")
    assert set(table.topics) == {"t", "u"}
    assert table.brokers["a"].addresses == {0: "h:1", 1: "s:1"}


def test_a_slave_without_master_is_told_nothing(table: RouteTable) -> None:
    """There is no address to give, and an old slave's topics do not count."""
    assert table.register(SLAVE) == MasterAddress()
    assert table.topics == {}


def test_a_single_topic_needs_the_full_list_first(table: RouteTable) -> None:
    """One topic alone is refused from a stranger and taken from a known broker."""
    single = replace(MASTER, topics=topics("new", counter=2))
    with pytest.raises(RequestError, match="register broker failed"):
        table.register(single)
    assert (table.brokers, table.clusters, table.live) == ({}, {}, {})
    table.register(MASTER)
    table.register(single)
    assert set(table.topics) == {"t", "u", "new"}


def test_topics_change_with_the_version_only(table: RouteTable) -> None:
    """The same version again changes nothing but what is missing; any other version does."""
    table.register(MASTER)
    table.wipe_write_perm("a")
    table.register(MASTER)
    assert perms(table) == {4}
    table.register(replace(MASTER, topics=topics("t", "u", "v")))
    assert table.topics["v"]["a"].perm == 6
    assert table.topics["t"]["a"].perm == 4
    table.register(replace(MASTER, topics=topics("t", "u", counter=2, queues=8)))
    assert table.topics["t"]["a"].read_queue_nums == 8
    assert perms(table) == {6}


def test_a_broker_that_moved_leaves_its_old_address(table: RouteTable) -> None:
    """The same id from elsewhere takes the place; the old connection's end changes nothing."""
    table.register(replace(MASTER, channel="old"))
    table.register(replace(MASTER, address="h:9", channel="new"))
    assert table.brokers["a"].addresses == {0: "h:9"}
    assert set(table.live) == {("c", "h:9")}
    table.channel_closed("old")
    assert table.brokers["a"].addresses == {0: "h:9"}


def test_a_slave_that_became_master_leaves_its_old_id(table: RouteTable) -> None:
    """One address has one id."""
    table.register(MASTER)
    table.register(SLAVE)
    table.unregister("c", "a", "h:1")
    table.register(replace(SLAVE, broker_id=0, topics=topics("t", "u", queues=9)))
    assert table.brokers["a"].addresses == {0: "s:1"}
    assert table.topics["t"]["a"].read_queue_nums == 9  # though its version is the one known


def test_an_outdated_claim_to_an_id_is_ignored(table: RouteTable) -> None:
    """A process with an older stateVersion does not push out the one with the newer."""
    table.register(replace(MASTER, topics=topics("t", "u", state=5)))
    claim = replace(MASTER, address="h:9", topics=topics("x", "y", state=4))
    assert table.register(claim) == MasterAddress()
    assert table.brokers["a"].addresses == {0: "h:1"}
    assert set(table.live) == {("c", "h:1")}
    table.register(replace(claim, topics=topics("x", "y", state=6)))
    assert table.brokers["a"].addresses == {0: "h:9"}


def test_a_renamed_broker_leaves_its_old_name(table: RouteTable) -> None:
    """The process at one address has one name; topics of the old one go."""
    table.register(MASTER)
    table.register(replace(MASTER, name="b", topics=topics("v", "w")))
    assert set(table.brokers) == {"b"}
    assert set(table.topics) == {"v", "w"}
    assert table.clusters == {"c": {"b"}}


def test_a_broker_that_changed_its_cluster_leaves_the_old_one(table: RouteTable) -> None:
    """It does not stay listed in both."""
    table.register(MASTER)
    table.register(replace(MASTER, cluster="d"))
    assert table.clusters == {"d": {"a"}}
    assert set(table.live) == {("d", "h:1")}


def test_the_last_of_a_name_takes_its_topics_along(table: RouteTable) -> None:
    """A topic lives on with its other brokers."""
    table.register(MASTER)
    table.register(SLAVE)
    table.register(replace(MASTER, name="b", address="h:5", topics=topics("t", "z")))
    table.unregister("c", "a", "h:1")
    assert table.brokers["a"].addresses == {1: "s:1"}
    table.unregister("c", "a", "s:1")
    assert set(table.topics) == {"t", "z"}
    assert set(table.topics["t"]) == {"b"}
    assert table.clusters == {"c": {"b"}}
    table.unregister("c", "b", "h:5")
    assert (table.topics, table.brokers, table.clusters, table.live) == ({}, {}, {}, {})


def test_unregistering_a_stranger_changes_nothing(table: RouteTable) -> None:
    """Neither an unknown name nor an unknown address does harm."""
    table.register(MASTER)
    table.unregister("c", "nobody", "h:7")
    table.unregister("c", "a", "h:7")
    assert table.brokers["a"].addresses == {0: "h:1"}


def test_a_closed_channel_unregisters_who_used_it(table: RouteTable) -> None:
    """Every broker that registered on it goes, others stay."""
    one, other = object(), object()
    table.register(replace(MASTER, channel=one))
    table.register(replace(MASTER, name="b", address="h:5", channel=one))
    table.register(replace(MASTER, name="d", address="h:6", channel=other))
    table.channel_closed(one)
    assert set(table.brokers) == {"d"}


def test_each_broker_expires_by_its_own_time_out(table: RouteTable, clock: Clock) -> None:
    """The header's time-out, or two minutes, since it was last heard."""
    table.register(replace(MASTER, timeout_ms=10_000, channel="fast"))
    table.register(replace(MASTER, name="b", address="h:5", channel="slow"))
    clock.now += 10_000
    assert table.expire() == []
    clock.now += 1
    assert table.expire() == ["fast"]
    assert set(table.brokers) == {"b"}
    clock.now += 100_000
    table.touch("c", "h:5", "slow")
    clock.now += 120_000
    assert table.expire() == []
    clock.now += 1
    assert table.expire() == ["slow"]
    assert table.topics == {}


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_a_senseless_time_out_is_the_default(
    table: RouteTable, clock: Clock, timeout_ms: int
) -> None:
    """It must not expire a broker the moment it comes."""
    table.register(replace(MASTER, timeout_ms=timeout_ms))
    clock.now += 119_000
    assert table.expire() == []


def test_a_group_that_lost_its_master_is_read_only(table: RouteTable) -> None:
    """With enableActingMaster the queues lose their write permission until a master is back."""
    master, slave = replace(MASTER, acting_master=True), replace(SLAVE, acting_master=True)
    table.register(master)
    table.register(slave)
    assert perms(table) == {6}
    table.unregister("c", "a", "h:1")
    assert perms(table) == {4}
    table.register(slave)
    assert perms(table) == {4}
    table.register(master)
    assert perms(table) == {6}


def test_a_group_without_acting_master_keeps_its_permissions(table: RouteTable) -> None:
    """Old brokers' slaves are shown as they are when the master is gone."""
    table.register(MASTER)
    table.register(SLAVE)
    table.unregister("c", "a", "h:1")
    assert perms(table) == {6}


def test_the_first_slave_of_a_new_broker_brings_topics_read_only(table: RouteTable) -> None:
    """Where no master ever came, the smallest slave speaks for the topics."""
    table.register(replace(SLAVE, acting_master=True))
    assert perms(table) == {4}
    table.register(replace(SLAVE, broker_id=2, address="s:9", acting_master=True,
                           topics=topics("x", "y")))  # fmt: skip
    assert set(table.topics) == {"t", "u"}


def test_perms_are_wiped_and_added(table: RouteTable) -> None:
    """Both tell how many topics they touched; a stranger has none."""
    table.register(replace(MASTER, topics=topics("t", "u", perm=7)))
    assert table.wipe_write_perm("a") == 2
    assert perms(table) == {5}
    assert table.add_write_perm("a") == 2
    assert perms(table) == {6}
    assert table.wipe_write_perm("nobody") == 0


def test_a_topic_is_registered_with_known_brokers_only(table: RouteTable) -> None:
    """All of its queues or none."""
    table.register(MASTER)
    known, unknown = QueueData(broker_name="a", perm=6), QueueData(broker_name="x", perm=6)
    table.register_topic("n", [known, unknown])
    assert "n" not in table.topics
    table.register_topic("n", [known])
    assert table.topics["n"] == {"a": known}
    table.unregister("c", "a", "h:1")
    assert table.topics == {}


def test_a_topic_is_deleted_in_one_cluster_or_everywhere(table: RouteTable) -> None:
    """Another cluster's brokers keep it."""
    table.register(MASTER)
    table.register(replace(MASTER, cluster="d", name="b", address="h:5"))
    table.delete_topic("t", "d")
    assert set(table.topics["t"]) == {"a"}
    table.delete_topic("t", "nowhere")
    table.delete_topic("t")
    table.delete_topic("t")
    assert set(table.topics) == {"u"}
    assert table.brokers["a"].topics == {"u"}


def test_filter_servers_are_kept_replaced_and_removed(table: RouteTable) -> None:
    """None leaves them, an empty list removes them, and they go with their broker."""
    table.register(replace(MASTER, filter_servers=["f:1"]))
    table.register(replace(MASTER, filter_servers=None))
    assert table.filter_servers == {("c", "h:1"): ["f:1"]}
    table.register(replace(MASTER, filter_servers=[]))
    assert table.filter_servers == {}
    table.register(replace(MASTER, filter_servers=["f:2"]))
    table.unregister("c", "a", "h:1")
    assert table.filter_servers == {}


def test_mappings_of_static_topics_come_and_go(table: RouteTable) -> None:
    """They are passed on as read, by the broker name inside them."""
    info = {"topic": "t", "bname": "a", "totalQueues": 4}
    wrapper = TopicConfigSerializeWrapper(
        topic_config_table=topics("t", "u").topic_config_table,
        topic_queue_mapping_info_map={"t": info},
    )
    table.register(replace(MASTER, topics=wrapper))
    assert table.mappings == {"t": {"a": info}}
    table.unregister("c", "a", "h:1")
    assert table.mappings == {}


def with_mappings(*mapped: str, counter: int, bname: object = "a") -> Registration:
    """The master with topics t and u, and mappings of the given ones."""
    wrapper = TopicConfigSerializeWrapper(
        topic_config_table=topics("t", "u").topic_config_table,
        data_version=DataVersion(counter=counter),
        topic_queue_mapping_info_map={topic: {"bname": bname} for topic in mapped},
    )
    return replace(MASTER, topics=wrapper)


def test_mappings_go_with_their_topic(table: RouteTable) -> None:
    """And stay when a later registration, of another topic alone, does not name them."""
    table.register(with_mappings("t", counter=1))
    table.register(with_mappings("u", counter=2))
    assert set(table.mappings) == {"t", "u"}
    table.delete_topic("t")
    assert set(table.mappings) == {"u"}
    table.delete_topic("u", "c")
    assert table.mappings == {}


def test_a_static_topic_deleted_here_comes_back_with_its_mapping(table: RouteTable) -> None:
    """Its broker says again what it said: without it clients would take offsets for others."""
    table.register(with_mappings("t", counter=1))
    table.delete_topic("t")
    table.register(with_mappings("t", counter=1))
    assert "a" in table.topics["t"] and table.mappings == {"t": {"a": {"bname": "a"}}}


@pytest.mark.parametrize("bname", ["a", "nobody", ["a"], 7, "", None])
def test_mappings_of_no_topic_are_not_kept(table: RouteTable, bname: object) -> None:
    """What no route can show is forgotten: a peer that makes up names does not fill the memory."""
    for version in range(1, 5):
        made_up = [f"x{version}-{number}" for number in range(100)]
        table.register(with_mappings("t", *made_up, counter=version, bname=bname))
    assert table.mappings == ({} if bname == "nobody" else {"t": {"a": {"bname": bname}}})


def test_a_name_in_two_clusters_is_where_its_processes_are(table: RouteTable) -> None:
    """Who takes a place over from another cluster leaves nothing behind there."""
    table.register(MASTER)
    table.register(replace(MASTER, cluster="d", address="h:5"))
    assert set(table.live) == {("d", "h:5")}
    assert table.data_version("c", "h:1") is None
    assert (table.clusters, table.brokers["a"].cluster) == ({"d": {"a"}}, "d")
    table.register(replace(SLAVE, cluster="c"))
    assert table.clusters == {"d": {"a"}, "c": {"a"}}
    table.unregister("d", "a", "h:5")
    assert (table.clusters, table.brokers["a"].cluster) == ({"c": {"a"}}, "c")
    table.unregister("c", "a", "s:1")
    assert (table.clusters, table.brokers, table.topics) == ({}, {}, {})


def test_what_changes_for_all_topics_is_told_in_a_few_lines(
    table: RouteTable, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten thousand lines would hold the loop for a quarter of a second, and fill the disk."""
    names = [f"t{number}" for number in range(500)]
    table.register(replace(MASTER, topics=topics(*names)))
    caplog.clear()
    with caplog.at_level("INFO"):
        table.register(replace(MASTER, topics=topics(*names, counter=2, perm=4)))
    assert perms(table) == {4}
    assert len(caplog.records) == CHANGES_TOLD_MAX + 1
    assert "topics set broker=a count=500" in caplog.text


def test_a_registration_that_says_nothing_new_looks_at_no_topic(
    table: RouteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker sends all of its topics every 30 s; one that was deleted here comes back."""
    table.register(MASTER)
    looked_at: list[str] = []
    believes = Capacity.believes

    def noted(capacity: Capacity, topic: str, name: str, config: TopicConfig) -> bool:
        looked_at.append(topic)
        return believes(capacity, topic, name, config)

    monkeypatch.setattr(Capacity, "believes", noted)
    table.register(MASTER)
    assert not looked_at
    table.delete_topic("t")
    table.register(MASTER)
    assert set(looked_at) == {"t", "u"} and "a" in table.topics["t"]
