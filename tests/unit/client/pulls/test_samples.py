"""Statistics as plain numbers: each has a name, labels, a unit and words."""

import re

from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ConsumeFrom, LitePullConsumer, PushConsumer, StatisticSample


def values(samples: list[StatisticSample]) -> dict[tuple[str, str | None], float]:
    """Return the numbers by name and queue."""
    return {(each.name, each.labels.get("queue")): each.value for each in samples}


async def test_a_push_consumer_tells_numbers(cluster: FakeCluster) -> None:
    """Of its handlers, topics and queues; before its start, too."""
    cluster.brokers.pop()
    cluster.create("t", 2)
    for at in range(3):
        cluster.brokers[0].store("t", 1, b"%d" % at)
    push = PushConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    push.subscribe("t", lambda message: None)
    assert values(push.samples()) == {("handlers_running", None): 0, ("messages_waiting", None): 0}
    async with push:
        await until(lambda: push.statistics().handlers.succeeded == 3)
        await until(lambda: len(push.queues()) == 2)
        samples = push.samples()
    of_t = [each for each in samples if each.labels.get("topic", "t") == "t"]
    told = values(of_t)
    assert told["messages_succeeded_total", None] == told["messages_pulled_total", None] == 3
    assert told["messages_failed_total", None] == told["handlers_running", None] == 0
    assert told["queue_next_offset", "1"] == 3
    assert told["queue_messages", "0"] == told["queue_unreadable_messages", "0"] == 0
    for each in samples:
        assert each.labels["group"] == "g"
        assert each.help.endswith(".")
        assert each.is_counter == each.name.endswith("_total")
        assert re.fullmatch(r"[a-z_]+", each.name)
        assert all(isinstance(label, str) for label in each.labels.values())
        assert each.value.__class__ in (int, float)


async def test_a_lite_pull_consumer_tells_numbers(cluster: FakeCluster) -> None:
    """What waits to be polled, and its queues."""
    cluster.brokers.pop()
    cluster.create("t", 1)
    for at in range(3):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    lite = LitePullConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    lite.subscribe("t")
    assert values(lite.samples()) == {("messages_waiting", None): 0}
    async with lite:
        await until(lambda: values(lite.samples())["messages_waiting", None] == 3)
        told = values(lite.samples())
        assert (told["queue_messages", "0"], told["queue_bytes", "0"]) == (3, 3)
