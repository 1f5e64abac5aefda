"""What a registration says of topics that it does not name, and how many it brings."""

import pytest
from msgspec.structs import replace

from aerobee.namesrv.route_table import Registration, RouteTable
from aerobee.remoting.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from aerobee.remoting.errors import RequestError

MASTER = Registration(cluster="c", name="a", broker_id=0, address="h:1")


def clock() -> int:
    """A clock that stands still."""
    return 1_000_000


def topics(*names: str, counter: int = 1) -> TopicConfigSerializeWrapper:
    """The topics of a registration."""
    return TopicConfigSerializeWrapper(
        topic_config_table={name: TopicConfig(topic_name=name) for name in names},
        data_version=DataVersion(counter=counter),
    )


OWN = ("a", "c", "SELF_TEST_TOPIC")  # what no full registration of MASTER lacks


def test_missing_topics_stay_unless_told() -> None:
    """A topic that is not registered again stays, but for deleteTopicWithBrokerRegistration."""
    table = RouteTable(clock)
    full = replace(MASTER, topics=topics(*OWN, "t", "u"))
    less = replace(MASTER, topics=topics(*OWN, "t", "w", counter=2))
    table.register(full)
    table.register(less)
    assert set(table.topics) == {*OWN, "t", "u", "w"}
    strict = RouteTable(clock, delete_missing_topics=True)
    strict.register(full)
    strict.register(less)
    assert set(strict.topics) == {*OWN, "t", "w"}


@pytest.mark.parametrize("new", [("v",), ("v", "w"), ("v", "a", "c")])
def test_a_new_topic_wipes_no_others(new: tuple[str, ...]) -> None:
    """With deleteTopicWithBrokerRegistration, too: brokers announce what changed alone."""
    strict = RouteTable(clock, delete_missing_topics=True)
    strict.register(replace(MASTER, topics=topics(*OWN, "t", "u")))
    strict.register(replace(MASTER, topics=topics(*new, counter=2)))
    assert set(strict.topics) == {*OWN, "t", "u", *new}


def test_topics_are_counted_by_the_names_they_get() -> None:
    """A registration whose keys are other names than its topics' own passes no limit."""
    table = RouteTable(clock, topics_max=3)
    table.register(replace(MASTER, topics=topics("t", "u")))
    forged = {
        key: TopicConfig(topic_name=f"made-up-{number}", read_queue_nums=1)
        for number, key in enumerate(("t", "u", "v"))
    }
    wrapper = TopicConfigSerializeWrapper(
        topic_config_table=forged, data_version=DataVersion(counter=2)
    )
    with pytest.raises(RequestError, match="topicsMax"):
        table.register(replace(MASTER, topics=wrapper))
    assert set(table.topics) == {"t", "u"}
