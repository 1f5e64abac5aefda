"""Counters, rates over windows, and the totals at midnight."""

from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aerobee.broker.health.metrics import SAMPLED_PER_STEP, Metrics
from aerobee.broker.writing.queues import TopicQueue


class World:
    """Metrics with a clock of their own and queues that are only numbers."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.queues: list[Any] = []
        self.metrics = Metrics(lambda: self.now_s)

    def queue(self, start_offset: int = 0, topic: str = "t") -> Any:
        """Make a queue that had messages before this process."""
        stored = SimpleNamespace(max_offset=start_offset)
        queue = SimpleNamespace(
            name=topic, stored=stored, start_offset=start_offset, arrived_bytes=0
        )
        self.queues.append(queue)
        return queue

    def used(self) -> list[TopicQueue]:
        """Return the queues under the type that the metrics ask for."""
        return cast(list[TopicQueue], self.queues)


def test_only_what_arrived_since_the_start_counts() -> None:
    """Messages of an earlier process are not `in`."""
    world = World()
    queue = world.queue(start_offset=1000)
    assert world.metrics.counts(world.used()).put == 0
    queue.stored.max_offset += 7
    queue.arrived_bytes += 700
    counts = world.metrics.counts(world.used())
    assert (counts.put, counts.put_bytes) == (7, 700)


def test_deleted_queues_stay_in_the_totals() -> None:
    """A counter never goes back; the rows of what is gone do go."""
    world = World()
    queue = world.queue()
    queue.stored.max_offset, queue.arrived_bytes = 5, 50
    world.metrics.pulled("t", "g", 3, 30)
    world.metrics.pulled("u", "g", 1, 10)
    world.metrics.queue_gone(queue)
    world.queues.clear()
    world.metrics.forget(topic="t")
    counts = world.metrics.counts(world.used())
    assert (counts.put, counts.put_bytes, counts.transferred) == (5, 50, 4)
    assert list(world.metrics.outgoing) == [("u", "g")]
    world.metrics.forget(group="g")
    assert not world.metrics.outgoing


def test_pulls_are_found_or_missed() -> None:
    """An empty reply is a miss and moves no message."""
    metrics = World().metrics
    metrics.pulled("t", "g", 0, 0)
    metrics.pulled("t", "g", 32, 3200)
    metrics.pulled("t", "g", 1, 100)
    assert (metrics.missed, metrics.found, metrics.transferred) == (1, 2, 33)
    assert metrics.outgoing["t", "g"].size_bytes == 3300


def test_rates_are_per_second_over_each_window() -> None:
    """100 messages a second for ten minutes, then 400 a second for ten seconds."""
    world = World()
    queue = world.queue()
    for _ in range(120):
        queue.stored.max_offset += 1000
        world.now_s += 10
        world.metrics.sample(world.used())
    queue.stored.max_offset += 4000
    world.now_s += 10
    rates = world.metrics.rates(world.metrics.counts(world.used()))
    assert rates["put"][0] == pytest.approx(400)
    assert rates["put"][1] == pytest.approx((50 * 100 + 4000) / 60)
    assert rates["put"][2] == pytest.approx((590 * 100 + 4000) / 600)


def test_a_young_broker_has_rates_too() -> None:
    """Windows reach back to the start at most, so the first seconds are not rated as ten."""
    world = World()
    queue = world.queue()
    queue.stored.max_offset += 50
    world.now_s += 5
    rates = world.metrics.rates(world.metrics.counts(world.used()))
    assert rates["put"] == pytest.approx([10, 10, 10])


def test_topics_and_groups_have_rates_of_their_own() -> None:
    """Over the last minute: two queues of one topic add up; what ended a minute ago is none."""
    world = World()
    first, second, other = world.queue(), world.queue(start_offset=500), world.queue(topic="u")
    assert world.metrics.sent_to.per_second("t") == 0
    for _ in range(3):
        first.stored.max_offset += 100
        second.stored.max_offset += 50
        other.stored.max_offset += 10
        world.metrics.pulled("t", "g", 20, 200)
        world.now_s += 10
        world.metrics.sample(world.used())
    assert world.metrics.sent_to.per_second("t") == pytest.approx(15)
    assert world.metrics.sent_to.per_second("u") == pytest.approx(1)
    assert world.metrics.pulled_by.per_second(("t", "g")) == pytest.approx(2)
    assert world.metrics.pulled_by.per_second(("u", "g")) == 0
    world.queues.remove(other)  # a topic that is deleted
    for _ in range(6):
        world.now_s += 10
        world.metrics.sample(world.used())
        assert world.metrics.sent_to.per_second("u") == 0
    assert world.metrics.sent_to.per_second("t") == 0


def test_midnight_is_noticed() -> None:
    """Totals of the two last midnights, as the tools subtract them."""
    world = World()
    queue = world.queue()
    for day, count in ((1, 10), (1, 20), (2, 30), (2, 40), (3, 50)):
        queue.stored.max_offset = count
        world.metrics.sample(world.used(), date(2026, 1, day))
    assert (world.metrics.yesterday.put, world.metrics.today.put) == (30, 50)


def test_a_sample_of_many_queues_is_taken_in_steps() -> None:
    """The loop serves in between; a queue that goes meanwhile counts once."""
    world = World()
    for _ in range(3 * SAMPLED_PER_STEP):
        world.queue().stored.max_offset = 2
    steps = world.metrics.sampling(world.used())
    next(steps)
    gone = world.queues.pop()
    world.metrics.queue_gone(gone)
    assert len(list(steps)) == 2
    world.now_s += 20
    latest = world.metrics.counts(world.used())
    assert latest.put == 2 * 3 * SAMPLED_PER_STEP
    assert world.metrics.rates(latest)["put"][0] == 0, "in the last ten seconds nothing came"
