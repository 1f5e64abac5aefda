"""What anybody may register is kept within limits, and harms nobody else."""

import pytest
from msgspec.structs import replace

from aerobee.namesrv.route_table import Registration, RouteTable
from aerobee.remoting.bodies import (
    DataVersion,
    QueueData,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from aerobee.remoting.errors import RequestError


def clock() -> int:
    """A clock that stands still."""
    return 1_000_000


def topics(*names: str, counter: int = 1) -> TopicConfigSerializeWrapper:
    """The topics of a registration."""
    return TopicConfigSerializeWrapper(
        topic_config_table={name: TopicConfig(topic_name=name) for name in names},
        data_version=DataVersion(counter=counter),
    )


MASTER = Registration(cluster="c", name="a", broker_id=0, address="h:1", topics=topics("t", "u"))


def test_numbers_of_brokers_and_topics_are_limited() -> None:
    """What would pass a limit is refused as a whole, with the setting's name."""
    table = RouteTable(clock, brokers_max=1, topics_max=3)
    table.register(MASTER)
    with pytest.raises(RequestError, match="brokersMax"):
        table.register(replace(MASTER, name="b", address="h:5"))
    with pytest.raises(RequestError, match="topicsMax"):
        table.register(replace(MASTER, topics=topics("t", "v", "w", counter=2)))
    assert set(table.topics) == {"t", "u"}
    table.register_topic("v", [QueueData(broker_name="a")])
    with pytest.raises(RequestError, match="topicsMax"):
        table.register_topic("w", [QueueData(broker_name="a")])


def test_what_brokers_have_of_topics_is_limited() -> None:
    """Many brokers of the same few topics fill the memory as many topics do."""
    table = RouteTable(clock, route_entries_max=5)
    table.register(MASTER)
    table.register(replace(MASTER, name="b", address="h:5"))
    with pytest.raises(RequestError, match="routeEntriesMax"):
        table.register(replace(MASTER, name="d", address="h:6"))
    assert set(table.brokers) == {"a", "b"}
    table.register(replace(MASTER, topics=topics("t", "u", counter=2)))
    table.register_topic("v", [QueueData(broker_name="a")])
    with pytest.raises(RequestError, match="routeEntriesMax"):
        table.register_topic("v", [QueueData(broker_name="b")])
    table.unregister("c", "b", "h:5")
    table.register(replace(MASTER, name="d", address="h:6"))
    assert set(table.topics["t"]) == {"a", "d"}


@pytest.mark.parametrize("count", [65_537, 2**31 - 1, -1])
def test_a_number_of_queues_that_cannot_be_harms_its_topic_alone(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients make that many queues; the broker keeps its other topics, and the log tells it."""
    table = RouteTable(clock)
    table.register(MASTER)
    table.register(replace(MASTER, name="b", address="h:5"))
    sound, forged = TopicConfig(topic_name="w"), TopicConfig(topic_name="t", read_queue_nums=count)
    wrapper = topics("u", counter=2)
    wrapper.topic_config_table.update(w=sound, t=forged)
    table.register(replace(MASTER, topics=wrapper))
    assert set(table.topics["t"]) == {"b"}
    assert set(table.topics["u"]) == {"a", "b"}
    assert set(table.topics["w"]) == {"a"}
    assert f"topic=t broker=a queues={count}" in caplog.text
    with pytest.raises(RequestError, match="65536"):
        table.register_topic("x", [QueueData(broker_name="a", write_queue_nums=count)])
    assert "x" not in table.topics
