"""Plans of what is where: of ten thousand topics, and empty once they are applied."""

import pytest

from aerobee.admin.metadata import Metadata, MetadataChange
from aerobee.admin.spreading import differing, filling, spreading
from aerobee.client import InvalidUse
from aerobee.remoting.bodies import SubscriptionGroupConfig, TopicConfig


def topic(name: str, queues: int, perm: int = 6) -> TopicConfig:
    """Return a topic of so many queues."""
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def applied(current: Metadata, plan: list[MetadataChange]) -> Metadata:
    """Return what there is when a plan was done."""
    topics = {name: dict(placed) for name, placed in current.topics.items()}
    groups = {name: dict(placed) for name, placed in current.groups.items()}
    for change in plan:
        if isinstance(change.after, TopicConfig):
            topics.setdefault(change.name, {})[change.broker] = change.after
        elif isinstance(change.after, SubscriptionGroupConfig):
            groups.setdefault(change.name, {})[change.broker] = change.after
    return Metadata(topics, groups)


def test_ten_thousand_topics_are_planned_at_once() -> None:
    """For a new broker, and over all; done, nothing is left of either."""
    current = Metadata(
        {f"t{number}": {"a": topic(f"t{number}", 4)} for number in range(10_000)},
        {f"g{number}": {"a": SubscriptionGroupConfig(group_name=f"g{number}")}
         for number in range(1_000)},
    )  # fmt: skip
    plan = filling(current, "b", "a")
    assert len(plan) == 11_000
    assert {change.broker for change in plan} == {"b"}
    done = applied(current, plan)
    assert filling(done, "b", "a") == []
    assert differing(done, "b", "a") == []
    plan = spreading(done, list(done.topics), ["a", "b", "c"], total_queues=7)
    assert len(plan) == 30_000
    assert spreading(applied(done, plan), list(done.topics), "abc", total_queues=7) == []


@pytest.mark.parametrize(("total", "shares"), [(3, [1, 1, 1]), (7, [3, 2, 2]), (8, [3, 3, 2])])
def test_queues_are_shared_evenly(total: int, shares: list[int]) -> None:
    """What is left over goes to the first by name; what was there can still be read."""
    current = Metadata({"t": {"b": topic("t", 9)}}, {})
    plan = spreading(current, ["t"], ["c", "a", "b"], total_queues=total)
    found = applied(current, plan).topics["t"]
    assert [found[name].write_queue_nums for name in "abc"] == shares
    assert [found[name].read_queue_nums for name in "abc"] == [shares[0], 9, shares[2]]


def test_a_topic_is_copied_from_where_it_has_most_queues() -> None:
    """With its permissions; those that are there stay as they are."""
    current = Metadata({"t": {"a": topic("t", 2), "b": topic("t", 4, perm=4)}}, {})
    (change,) = spreading(current, ["t"], ["a", "b", "c"])
    assert (change.action, change.broker, change.after) == ("create", "c", topic("t", 4, perm=4))
    with pytest.raises(InvalidUse, match="no broker has a topic 'u'"):
        spreading(current, ["u"], ["a"])
    with pytest.raises(InvalidUse, match="fewer than 3 brokers"):
        spreading(current, ["t"], "abc", total_queues=2)
    assert differing(current, "a", "b") == ["t"]
    assert filling(current, "a", "b") == []
